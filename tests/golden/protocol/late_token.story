# A report that comes too late names its own token, so it cannot be taken for that of the next layer.
# Shows STALE_TOKEN_ACCEPTED.
world layers 2 overlap 1
given forward ddd
given advance 1000s
given policy done

# Rank 2 is slow, and layer 0 is given up.
submit ddd
> manager: forward 2 prepares layer 0 (prepare 1 on generation 0: 0 1 | 1 0 | 2 0)
> manager: layer 0 is preparing
all start
> ranks 0, 1, 2: prepare 1 queued
ranks 0 1 prepare
> ranks 0, 1: prepare 1 done
rank 2 begin
all finish
output
> ranks 0, 1: reported prepare 1 ok
> rank 2: reported prepare 1 running
advance 30s
submit ddd
> manager: forward 3 has an empty command
submit ddd
> manager: forward 4 has an empty command
all start
all finish
output
> manager warns: layer 0: rank 2 has not prepared in time (prepare_token 1); the layer is skipped
> manager: layer 0 is given up: not all ranks prepared in time

# Prepare 2, of layer 1, is on its way while forward 4 still runs; in its output rank 2 reports prepare
# 1, which is of no interest any more. Nobody has begun prepare 2.
submit ddd
> manager: forward 5 prepares layer 1 (prepare 2 on generation 0: 0 1 | 1 0 | 2 0)
> manager: layer 1 is preparing
rank 2 end
> rank 2: prepare 1 done
all start
all finish
output
> rank 2: reported prepare 1 ok

all start
> ranks 0, 1, 2: prepare 2 queued
all prepare
> ranks 0, 1, 2: prepare 2 done
all finish
output
> ranks 0, 1, 2: reported prepare 2 ok
> manager: layer 1 is ready
