# One rank votes no. The record decides for all of them: nobody switches.
# Shows VOTE_SKIPPED.
world layers 2
given forward ddd
given advance 1000s
given policy done
given forward ddd

# Rank 0 cannot materialise. It still takes its part in the exchange, so that rank 1 does not wait for
# a message that never comes.
submit ddd
> record: activation 2 is open
> manager: forward 3 activates layer 0 (activation 2 of prepare 1) and prepares layer 1 (prepare 3 on generation 0: 0 1 | 1 0 | 2 0)
> manager: layer 0 is activating
> manager: layer 1 is preparing
rank 0 start, materialise fails
> rank 0: materialise failed for activation 2
> rank 0: vote no on activation 2
> record: activation 2 is aborted
> rank 0: send posted: 0->1 slot 3 of activation 2
> rank 0: prepare 3 queued
ranks 1 2 start
> rank 1: materialised for activation 2
> rank 1: receive posted: 0->1 slot 3 of activation 2
> rank 1: prepare 3 queued
> rank 2: materialised for activation 2
> rank 2: vote yes on activation 2
> rank 2: prepare 3 queued
deliver 0->1
> rank 1: vote yes on activation 2
all prepare
> ranks 0, 1, 2: prepare 3 done
all finish
> ranks 0, 1, 2: waiting for activation 2
all poll
> ranks 0, 1, 2: layer 0 kept as it is
output
> ranks 0, 1, 2: reported prepare 3 ok
> rank 0: reported activation 2 kept: a model hook failed
> ranks 1, 2: reported activation 2 kept: another aborted the record
> manager: layer 0 is given up: the ranks voted it down
> manager: layer 1 is ready

# The old placement runs on, and layer 1 is not concerned.
state
> layer 0: generation 0 committed, 0 1 | 1 2 | 2 0
> ranks 0, 1, 2: layer 0 runs under generation 0, 0 1 | 1 2 | 2 0
> layer 1: generation 0 committed, 0 1 | 1 2 | 2 0
> ranks 0, 1, 2: layer 1 runs under generation 0, 0 1 | 1 2 | 2 0
forward ddd
> record: activation 4 is open
> manager: forward 4 activates layer 1 (activation 4 of prepare 3)
> manager: layer 1 is activating
> rank 0: materialised for activation 4
> rank 0: send posted: 0->1 slot 3 of activation 4
> rank 1: materialised for activation 4
> rank 1: receive posted: 0->1 slot 3 of activation 4
> rank 2: materialised for activation 4
> rank 2: vote yes on activation 4
> ranks 0, 1: vote yes on activation 4
> record: activation 4 is committed
> ranks 0, 1, 2: waiting for activation 4
> ranks 0, 1, 2: layer 1 switched to generation 1
> ranks 0, 1, 2: reported activation 4 switched
> manager: layer 1 is committed, generation 1
> manager: the round is over
