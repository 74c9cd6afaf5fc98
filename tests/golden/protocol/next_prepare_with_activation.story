# One command activates layer 0 and prepares layer 1. The activation is taken first, so that a prepare
# that is done at once does not push out the plan being activated; and a prepare touches neither
# weights nor staging, so it may run beside a transfer.
# Shows PREPARE_BEFORE_ACTIVATION.
world layers 2
given forward ddd
given advance 1000s
given policy done
forward ddd
> manager: forward 2 prepares layer 0 (prepare 1 on generation 0: 0 1 | 1 0 | 2 0)
> manager: layer 0 is preparing
> ranks 0, 1, 2: prepare 1 queued
> ranks 0, 1, 2: prepare 1 done
> ranks 0, 1, 2: reported prepare 1 ok
> manager: layer 0 is ready

submit ddd
> record: activation 2 is open
> manager: forward 3 activates layer 0 (activation 2 of prepare 1) and prepares layer 1 (prepare 3 on generation 0: 0 1 | 1 0 | 2 0)
> manager: layer 0 is activating
> manager: layer 1 is preparing
all start
> rank 0: materialised for activation 2
> rank 0: send posted: 0->1 slot 3 of activation 2
> rank 0: prepare 3 queued
> rank 1: materialised for activation 2
> rank 1: receive posted: 0->1 slot 3 of activation 2
> rank 1: prepare 3 queued
> rank 2: materialised for activation 2
> rank 2: vote yes on activation 2
> rank 2: prepare 3 queued
# Rank 0 is done before anything has moved, rank 1 when it has, rank 2 after the switch.
rank 0 prepare
> rank 0: prepare 3 done
deliver 0->1
> ranks 0, 1: vote yes on activation 2
> record: activation 2 is committed
rank 1 prepare
> rank 1: prepare 3 done
plans
> ranks 0, 1: plans held: 1 (being activated), 3
> rank 2: plans held: 1 (being activated)
all finish
> ranks 0, 1, 2: waiting for activation 2
all poll
> ranks 0, 1, 2: layer 0 switched to generation 1
output
> ranks 0, 1: reported prepare 3 ok
> rank 2: reported prepare 3 running
> ranks 0, 1, 2: reported activation 2 switched
> manager: layer 0 is committed, generation 1

rank 2 prepare
> rank 2: prepare 3 done
submit ddd
> manager: forward 4 has an empty command
all start
all finish
output
> rank 2: reported prepare 3 ok
> manager: layer 1 is ready
forward ddd
> record: activation 4 is open
> manager: forward 5 activates layer 1 (activation 4 of prepare 3)
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
