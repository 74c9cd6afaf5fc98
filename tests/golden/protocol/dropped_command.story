# A forward that carried an activation and a prepare is dropped before any rank was given it. Both
# come again with the next forward that may carry them, under their old tokens: no rank has seen these.
world layers 2
given forward ddd
given advance 1000s
given policy done
given forward ddd

submit ddd
> record: activation 2 is open
> manager: forward 3 activates layer 0 (activation 2 of prepare 1) and prepares layer 1 (prepare 3 on generation 0: 0 1 | 1 0 | 2 0)
> manager: layer 0 is activating
> manager: layer 1 is preparing
drop 3

# No command is out, so no time passes for the prepare, however long it takes.
advance 100s
forward ppp
> manager: forward 4 has an empty command

# The number of the dropped forward is no gap.
forward ddd
> manager: forward 5 activates layer 0 (activation 2 of prepare 1) and prepares layer 1 (prepare 3 on generation 0: 0 1 | 1 0 | 2 0)
> rank 0: materialised for activation 2
> rank 0: send posted: 0->1 slot 3 of activation 2
> rank 0: prepare 3 queued
> rank 1: materialised for activation 2
> rank 1: receive posted: 0->1 slot 3 of activation 2
> rank 1: prepare 3 queued
> rank 2: materialised for activation 2
> rank 2: vote yes on activation 2
> rank 2: prepare 3 queued
> ranks 0, 1, 2: prepare 3 done
> ranks 0, 1: vote yes on activation 2
> record: activation 2 is committed
> ranks 0, 1, 2: waiting for activation 2
> ranks 0, 1, 2: layer 0 switched to generation 1
> ranks 0, 1, 2: reported prepare 3 ok
> ranks 0, 1, 2: reported activation 2 switched
> manager: layer 0 is committed, generation 1
> manager: layer 1 is ready
forward ddd
> record: activation 4 is open
> manager: forward 6 activates layer 1 (activation 4 of prepare 3)
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
state
> layer 0: generation 1 committed, 0 1 | 1 0 | 2 0
> ranks 0, 1, 2: layer 0 runs under generation 1, 0 1 | 1 0 | 2 0
> layer 1: generation 1 committed, 0 1 | 1 0 | 2 0
> ranks 0, 1, 2: layer 1 runs under generation 1, 0 1 | 1 0 | 2 0
