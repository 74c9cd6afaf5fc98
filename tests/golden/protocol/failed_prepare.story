# A rank cannot prepare. The layer is given up at once, without waiting for a timeout, and the round
# goes on with the next layer.
world layers 2
given forward ddd
given advance 1000s
given policy done

submit ddd
> manager: forward 2 prepares layer 0 (prepare 1 on generation 0: 0 1 | 1 0 | 2 0)
> manager: layer 0 is preparing
all start
> ranks 0, 1, 2: prepare 1 queued
rank 0 prepare
> rank 0: prepare 1 done
rank 1 prepare fails
> rank 1: prepare 1 failed
all finish
output
> rank 0: reported prepare 1 ok
> rank 1: reported prepare 1 failed: a model hook failed
> rank 2: reported prepare 1 running
> manager warns: layer 0: rank 1 could not prepare (prepare_token 1): a model hook failed; the layer is skipped
> manager: layer 0 is given up: a rank could not prepare

# Rank 2 has not even begun; the next prepare takes the place of the old one.
submit ddd
> manager: forward 3 prepares layer 1 (prepare 2 on generation 0: 0 1 | 1 0 | 2 0)
> manager: layer 1 is preparing
all start
> ranks 0, 1, 2: prepare 2 queued
rank 2 begin
rank 2 end
> rank 2: prepare 2 done
rank 0 prepare
> rank 0: prepare 2 done
rank 1 prepare
> rank 1: prepare 2 done
all finish
output
> ranks 0, 1, 2: reported prepare 2 ok
> manager: layer 1 is ready
forward ddd
> record: activation 3 is open
> manager: forward 4 activates layer 1 (activation 3 of prepare 2)
> manager: layer 1 is activating
> rank 0: materialised for activation 3
> rank 0: send posted: 0->1 slot 3 of activation 3
> rank 1: materialised for activation 3
> rank 1: receive posted: 0->1 slot 3 of activation 3
> rank 2: materialised for activation 3
> rank 2: vote yes on activation 3
> ranks 0, 1: vote yes on activation 3
> record: activation 3 is committed
> ranks 0, 1, 2: waiting for activation 3
> ranks 0, 1, 2: layer 1 switched to generation 1
> ranks 0, 1, 2: reported activation 3 switched
> manager: layer 1 is committed, generation 1
> manager: the round is over
state
> layer 0: generation 0 committed, 0 1 | 1 2 | 2 0
> ranks 0, 1, 2: layer 0 runs under generation 0, 0 1 | 1 2 | 2 0
> layer 1: generation 1 committed, 0 1 | 1 0 | 2 0
> ranks 0, 1, 2: layer 1 runs under generation 1, 0 1 | 1 0 | 2 0
