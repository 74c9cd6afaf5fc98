# Messages of an aborted attempt are still on their way when the next attempt has begun. They name
# their activation, and are dropped.
# Shows MESSAGE_WITHOUT_TOKEN.
# Shows STAGING_REUSED_EARLY.
world layers 2 chunks 2
given forward ddd
given advance 1000s
given policy done
given forward ddd

# Both chunks have left rank 0 when its deadline passes.
submit ddd
> record: activation 2 is open
> manager: forward 3 activates layer 0 (activation 2 of prepare 1) and prepares layer 1 (prepare 3 on generation 0: 0 1 | 1 0 | 2 0)
> manager: layer 0 is activating
> manager: layer 1 is preparing
all start
> rank 0: materialised for activation 2
> rank 0: send posted: 0->1 slot 3 chunk 0 of activation 2
> rank 0: send posted: 0->1 slot 3 chunk 1 of activation 2
> rank 0: prepare 3 queued
> rank 1: materialised for activation 2
> rank 1: receive posted: 0->1 slot 3 chunk 0 of activation 2
> rank 1: receive posted: 0->1 slot 3 chunk 1 of activation 2
> rank 1: prepare 3 queued
> rank 2: materialised for activation 2
> rank 2: vote yes on activation 2
> rank 2: prepare 3 queued
all prepare
> ranks 0, 1, 2: prepare 3 done
send 0->1
> rank 0: vote yes on activation 2
all finish
> ranks 0, 1, 2: waiting for activation 2
advance 10s
rank 0 poll
> rank 0: deadline passed, abort of activation 2 asked
> record: activation 2 is aborted
all poll
> rank 0: layer 0 kept as it is
> rank 1: cancel of receive asked: 0->1 slot 3 chunk 0 of activation 2
> rank 1: cancel of receive asked: 0->1 slot 3 chunk 1 of activation 2
> rank 2: layer 0 kept as it is
rank 1 poll
> rank 1: layer 0 kept as it is
output
> ranks 0, 1, 2: reported prepare 3 ok
> rank 0: reported activation 2 kept: the transfer timeout passed
> ranks 1, 2: reported activation 2 kept: another aborted the record
> manager: layer 0 is given up: the ranks voted it down
> manager: layer 1 is ready

# One arrives between the attempts, the other in the next one, for the same slot.
arrive 0->1 chunk 0
> rank 1: dropped, no activation is under way: 0->1 slot 3 chunk 0 of activation 2
submit ddd
> record: activation 4 is open
> manager: forward 4 activates layer 1 (activation 4 of prepare 3)
> manager: layer 1 is activating
all start
> rank 0: materialised for activation 4
> rank 0: send posted: 0->1 slot 3 chunk 0 of activation 4
> rank 0: send posted: 0->1 slot 3 chunk 1 of activation 4
> rank 1: materialised for activation 4
> rank 1: receive posted: 0->1 slot 3 chunk 0 of activation 4
> rank 1: receive posted: 0->1 slot 3 chunk 1 of activation 4
> rank 2: materialised for activation 4
> rank 2: vote yes on activation 4
arrive 0->1 chunk 1 of 2
> rank 1: dropped, activation 4 is under way: 0->1 slot 3 chunk 1 of activation 2
deliver 0->1
> ranks 0, 1: vote yes on activation 4
> record: activation 4 is committed
all finish
> ranks 0, 1, 2: waiting for activation 4
all poll
> ranks 0, 1, 2: layer 1 switched to generation 1
output
> ranks 0, 1, 2: reported activation 4 switched
> manager: layer 1 is committed, generation 1
> manager: the round is over
state
> layer 0: generation 0 committed, 0 1 | 1 2 | 2 0
> ranks 0, 1, 2: layer 0 runs under generation 0, 0 1 | 1 2 | 2 0
> layer 1: generation 1 committed, 0 1 | 1 0 | 2 0
> ranks 0, 1, 2: layer 1 runs under generation 1, 0 1 | 1 0 | 2 0
