# A rank votes yes and dies. The record decides: it was committed before the death was seen, so the
# ranks that live switch, and the manager does not call that an abort.
# Shows DEATH_ABORTS_DECIDED.
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
rank 2 die
deliver 0->1
> ranks 0, 1: vote yes on activation 2
> record: activation 2 is committed
dead 2
> manager warns: rank 2 died while layer 0 was activating (activation_token 2); the decision record decides
> manager: layer 1 is given up: a rank died
> manager: asks to abort activation 2

# The others cannot finish a forward that a dead rank is part of. They have voted; abort_step changes
# nothing about that.
ranks 0 1 abort
> ranks 0, 1: waiting for activation 2
all poll
> ranks 0, 1: layer 0 switched to generation 1
output
> ranks 0, 1: reported prepare 3 running
> ranks 0, 1: reported activation 2 switched
> manager: layer 0 is committed, generation 1
> manager: the round is over
state
> layer 0: generation 1 committed, 0 1 | 1 0 | 2 0
> ranks 0, 1: layer 0 runs under generation 1, 0 1 | 1 0 | 2 0
> layer 1: generation 0 committed, 0 1 | 1 2 | 2 0
> ranks 0, 1: layer 1 runs under generation 0, 0 1 | 1 2 | 2 0
