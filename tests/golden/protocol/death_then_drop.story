# A rank dies while the forward that carries the activation waits to be given out. For all that the
# manager knows a rank may have it, so the layer stays activating; then the forward is dropped.
# Shows DROPPED_AFTER_ABORT.
given forward ddd
given advance 1000s
given policy done
given forward ddd

submit ddd
> record: activation 2 is open
> manager: forward 3 activates layer 0 (activation 2 of prepare 1)
> manager: layer 0 is activating
rank 1 die
dead 1
> manager warns: rank 1 died while layer 0 was activating (activation_token 2); the decision record decides
> manager: asks to abort activation 2
> record: activation 2 is aborted
drop 3
> manager: asks to abort activation 2
> manager: layer 0 is given up: a rank died
> manager: the round is over
state
> layer 0: generation 0 committed, 0 1 | 1 2 | 2 0
> ranks 0, 2: layer 0 runs under generation 0, 0 1 | 1 2 | 2 0
