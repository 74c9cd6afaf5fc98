# Solved weights for a placement that is not the layer's are left out, and a graph warm-up brings none. The
# window of slots is that of the newest version; that of experts goes on.
world adaptive
forward ddd
> manager: forward 1 has an empty command
> manager: a solve of weights is due
solved layer 0 expert 0 75 of generation 3
forward ddd
> manager: forward 2 has an empty command
> manager: a solve of weights is due
solved layer 0 expert 0 75
submit warmup ddd
> manager: forward 3 has an empty command
all start
all finish
output
forward ddd
> manager: forward 4 brings layer 0 weights (version 1 of generation 0)
> ranks 0, 1, 2: takes weights of layer 0, version 1
> manager: a solve of weights is due
solved layer 0 expert 0 30
forward ddd
> manager: forward 5 brings layer 0 weights (version 2 of generation 0)
> ranks 0, 1, 2: takes weights of layer 0, version 2
> manager: a solve of weights is due
state
> layer 0: generation 0 committed, 0 1 | 1 2 | 2 0
> rank 0: layer 0 runs under generation 0, 0 1 | 1 2 | 2 0
> rank 0: layer 0 has weights of version 2
> rank 1: layer 0 runs under generation 0, 0 1 | 1 2 | 2 0
> rank 1: layer 0 has weights of version 2
> rank 2: layer 0 runs under generation 0, 0 1 | 1 2 | 2 0
> rank 2: layer 0 has weights of version 2

window layer 0
> window of layer 0: tokens of experts 120 36 12, of slots 6 3 6 0 3 24, generation 0
