# A prepare that starts from another generation than the worker runs cannot be used: the plan would
# read experts from slots that hold others. Here the engine garbles the command on its way.
# Shows PREPARE_ON_ANOTHER_BASE.
given forward ddd
given advance 1000s
given policy done

submit ddd from generation 7
> manager: forward 2 prepares layer 0 (prepare 1 on generation 0: 0 1 | 1 0 | 2 0)
> manager: layer 0 is preparing
all start
> ranks 0, 1, 2: prepare 1 refused: the worker runs another generation
all finish
output
> ranks 0, 1, 2: reported prepare 1 failed: the worker runs another generation
> manager warns: layer 0: rank 0 could not prepare (prepare_token 1): the worker runs another generation; the layer is skipped
> manager: layer 0 is given up: a rank could not prepare
> manager: the round is over
