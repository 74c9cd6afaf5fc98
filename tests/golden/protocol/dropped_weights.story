# A forward with weights is dropped. They come again under the same version: no rank has seen them. When
# newer ones were sent after them, only these count.
# Shows OLDER_WEIGHTS_RESENT.
world adaptive overlap 1
forward ddd
> manager: forward 1 has an empty command
> manager: a solve of weights is due
solved layer 0 expert 0 75
submit ddd
> manager: forward 2 brings layer 0 weights (version 1 of generation 0)
drop 2
submit ppp
> manager: forward 3 brings layer 0 weights (version 1 of generation 0)
all start
> ranks 0, 1, 2: takes weights of layer 0, version 1
all finish
output
> manager: a solve of weights is due
state
> layer 0: generation 0 committed, 0 1 | 1 2 | 2 0
> rank 0: layer 0 runs under generation 0, 0 1 | 1 2 | 2 0
> rank 0: layer 0 has weights of version 1
> rank 1: layer 0 runs under generation 0, 0 1 | 1 2 | 2 0
> rank 1: layer 0 has weights of version 1
> rank 2: layer 0 runs under generation 0, 0 1 | 1 2 | 2 0
> rank 2: layer 0 has weights of version 1

# Two in flight, each with weights; the older one is dropped, and nothing of it comes again.
submit ddd
> manager: forward 4 has an empty command
all start
all finish
solved layer 0 expert 0 60
submit ddd
> manager: forward 5 brings layer 0 weights (version 2 of generation 0)
output
> manager: a solve of weights is due
solved layer 0 expert 0 70
submit ddd
> manager: forward 6 brings layer 0 weights (version 3 of generation 0)
drop 5
all start
> ranks 0, 1, 2: takes weights of layer 0, version 3
all finish
output
> manager: a solve of weights is due
forward ddd
> manager: forward 7 has an empty command
state
> layer 0: generation 0 committed, 0 1 | 1 2 | 2 0
> rank 0: layer 0 runs under generation 0, 0 1 | 1 2 | 2 0
> rank 0: layer 0 has weights of version 3
> rank 1: layer 0 runs under generation 0, 0 1 | 1 2 | 2 0
> rank 1: layer 0 has weights of version 3
> rank 2: layer 0 runs under generation 0, 0 1 | 1 2 | 2 0
> rank 2: layer 0 has weights of version 3
