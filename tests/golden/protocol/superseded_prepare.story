# The background thread has depth one: the newest prepare replaces one that has not begun, and the
# result of one that has is discarded.
world layers 3
given forward ddd
given advance 1000s
given policy done

# Rank 2 is busy with prepare 1 when rank 0 fails it.
submit ddd
> manager: forward 2 prepares layer 0 (prepare 1 on generation 0: 0 1 | 1 0 | 2 0)
> manager: layer 0 is preparing
all start
> ranks 0, 1, 2: prepare 1 queued
rank 2 begin
rank 0 prepare fails
> rank 0: prepare 1 failed
rank 1 prepare
> rank 1: prepare 1 done
all finish
output
> rank 0: reported prepare 1 failed: a model hook failed
> rank 1: reported prepare 1 ok
> rank 2: reported prepare 1 running
> manager warns: layer 0: rank 0 could not prepare (prepare_token 1): a model hook failed; the layer is skipped
> manager: layer 0 is given up: a rank could not prepare

# Prepare 2 waits on rank 2, is failed by rank 0 too, and is replaced by prepare 3 without having begun.
submit ddd
> manager: forward 3 prepares layer 1 (prepare 2 on generation 0: 0 1 | 1 0 | 2 0)
> manager: layer 1 is preparing
all start
> ranks 0, 1, 2: prepare 2 queued
rank 0 prepare fails
> rank 0: prepare 2 failed
rank 1 prepare
> rank 1: prepare 2 done
all finish
output
> rank 0: reported prepare 2 failed: a model hook failed
> rank 1: reported prepare 2 ok
> rank 2: reported prepare 2 running
> manager warns: layer 1: rank 0 could not prepare (prepare_token 2): a model hook failed; the layer is skipped
> manager: layer 1 is given up: a rank could not prepare
submit ddd
> manager: forward 4 prepares layer 2 (prepare 3 on generation 0: 0 1 | 1 0 | 2 0)
> manager: layer 2 is preparing
all start
> ranks 0, 1, 2: prepare 3 queued
ranks 0 1 prepare
> ranks 0, 1: prepare 3 done

# Prepare 1 ends well, and nobody wants it.
rank 2 end
> rank 2: prepare 1 done
plans
> rank 0: plans held: 3
> rank 1: plans held: 2, 3
> rank 2: plans held: none
rank 2 begin
rank 2 end
> rank 2: prepare 3 done
plans
> rank 0: plans held: 3
> rank 1: plans held: 2, 3
> rank 2: plans held: 3
all finish
output
> ranks 0, 1, 2: reported prepare 3 ok
> manager: layer 2 is ready
forward ddd
> record: activation 4 is open
> manager: forward 5 activates layer 2 (activation 4 of prepare 3)
> manager: layer 2 is activating
> rank 0: materialised for activation 4
> rank 0: send posted: 0->1 slot 3 of activation 4
> rank 1: materialised for activation 4
> rank 1: receive posted: 0->1 slot 3 of activation 4
> rank 2: materialised for activation 4
> rank 2: vote yes on activation 4
> ranks 0, 1: vote yes on activation 4
> record: activation 4 is committed
> ranks 0, 1, 2: waiting for activation 4
> ranks 0, 1, 2: layer 2 switched to generation 1
> ranks 0, 1, 2: reported activation 4 switched
> manager: layer 2 is committed, generation 1
> manager: the round is over
state
> layer 0: generation 0 committed, 0 1 | 1 2 | 2 0
> ranks 0, 1, 2: layer 0 runs under generation 0, 0 1 | 1 2 | 2 0
> layer 1: generation 0 committed, 0 1 | 1 2 | 2 0
> ranks 0, 1, 2: layer 1 runs under generation 0, 0 1 | 1 2 | 2 0
> layer 2: generation 1 committed, 0 1 | 1 0 | 2 0
> ranks 0, 1, 2: layer 2 runs under generation 1, 0 1 | 1 0 | 2 0
