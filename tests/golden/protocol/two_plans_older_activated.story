# A worker with two finished plans activates the older one. Plans are held by token, and a finished
# prepare pushes out only a plan that is not being activated.
world layers 3
given forward ddd
given advance 1000s
given policy done

# Prepare 1 fails on rank 2, so the others keep a plan of a layer that was given up.
submit ddd
> manager: forward 2 prepares layer 0 (prepare 1 on generation 0: 0 1 | 1 0 | 2 0)
> manager: layer 0 is preparing
all start
> ranks 0, 1, 2: prepare 1 queued
ranks 0 1 prepare
> ranks 0, 1: prepare 1 done
rank 2 prepare fails
> rank 2: prepare 1 failed
all finish
output
> ranks 0, 1: reported prepare 1 ok
> rank 2: reported prepare 1 failed: a model hook failed
> manager warns: layer 0: rank 2 could not prepare (prepare_token 1): a model hook failed; the layer is skipped
> manager: layer 0 is given up: a rank could not prepare
forward ddd
> manager: forward 3 prepares layer 1 (prepare 2 on generation 0: 0 1 | 1 0 | 2 0)
> manager: layer 1 is preparing
> ranks 0, 1, 2: prepare 2 queued
> ranks 0, 1, 2: prepare 2 done
> ranks 0, 1, 2: reported prepare 2 ok
> manager: layer 1 is ready
plans
> ranks 0, 1: plans held: 1, 2
> rank 2: plans held: 2

# Prepare 2 is to be activated; prepare 4 is done before anything else happens.
submit ddd
> record: activation 3 is open
> manager: forward 4 activates layer 1 (activation 3 of prepare 2) and prepares layer 2 (prepare 4 on generation 0: 0 1 | 1 0 | 2 0)
> manager: layer 1 is activating
> manager: layer 2 is preparing
all start
> rank 0: materialised for activation 3
> rank 0: send posted: 0->1 slot 3 of activation 3
> rank 0: prepare 4 queued
> rank 1: materialised for activation 3
> rank 1: receive posted: 0->1 slot 3 of activation 3
> rank 1: prepare 4 queued
> rank 2: materialised for activation 3
> rank 2: vote yes on activation 3
> rank 2: prepare 4 queued
all prepare
> ranks 0, 1, 2: prepare 4 done
plans
> ranks 0, 1, 2: plans held: 2 (being activated), 4
deliver all
> ranks 0, 1: vote yes on activation 3
> record: activation 3 is committed
all finish
> ranks 0, 1, 2: waiting for activation 3
all poll
> ranks 0, 1, 2: layer 1 switched to generation 1
output
> ranks 0, 1, 2: reported prepare 4 ok
> ranks 0, 1, 2: reported activation 3 switched
> manager: layer 1 is committed, generation 1
> manager: layer 2 is ready
plans
> ranks 0, 1, 2: plans held: 4
forward ddd
> record: activation 5 is open
> manager: forward 5 activates layer 2 (activation 5 of prepare 4)
> manager: layer 2 is activating
> rank 0: materialised for activation 5
> rank 0: send posted: 0->1 slot 3 of activation 5
> rank 1: materialised for activation 5
> rank 1: receive posted: 0->1 slot 3 of activation 5
> rank 2: materialised for activation 5
> rank 2: vote yes on activation 5
> ranks 0, 1: vote yes on activation 5
> record: activation 5 is committed
> ranks 0, 1, 2: waiting for activation 5
> ranks 0, 1, 2: layer 2 switched to generation 1
> ranks 0, 1, 2: reported activation 5 switched
> manager: layer 2 is committed, generation 1
> manager: the round is over
state
> layer 0: generation 0 committed, 0 1 | 1 2 | 2 0
> ranks 0, 1, 2: layer 0 runs under generation 0, 0 1 | 1 2 | 2 0
> layer 1: generation 1 committed, 0 1 | 1 0 | 2 0
> ranks 0, 1, 2: layer 1 runs under generation 1, 0 1 | 1 0 | 2 0
> layer 2: generation 1 committed, 0 1 | 1 0 | 2 0
> ranks 0, 1, 2: layer 2 runs under generation 1, 0 1 | 1 0 | 2 0
