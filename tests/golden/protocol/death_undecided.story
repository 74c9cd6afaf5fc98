# A rank dies before the record is decided: the supervisor sees it and the record is aborted. It is
# one compare-and-swap against the last yes, so there is no third outcome.
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
rank 0 die
dead 0
> rank 1: receive failed: 0->1 slot 3 of activation 2
> rank 1: vote no on activation 2
> record: activation 2 is aborted
> manager warns: rank 0 died while layer 0 was activating (activation_token 2); the decision record decides
> manager: layer 1 is given up: a rank died
> manager: asks to abort activation 2
ranks 1 2 abort
> ranks 1, 2: waiting for activation 2
all poll
> ranks 1, 2: layer 0 kept as it is
all poll
output
> ranks 1, 2: reported prepare 3 running
> rank 1: reported activation 2 kept: a transfer failed
> rank 2: reported activation 2 kept: the forward was given up
> manager: layer 0 is given up: a rank died
> manager: the round is over
state
> layer 0: generation 0 committed, 0 1 | 1 2 | 2 0
> ranks 1, 2: layer 0 runs under generation 0, 0 1 | 1 2 | 2 0
> layer 1: generation 0 committed, 0 1 | 1 2 | 2 0
> ranks 1, 2: layer 1 runs under generation 0, 0 1 | 1 2 | 2 0
