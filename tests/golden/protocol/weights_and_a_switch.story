# Weights for a layer that is about to switch. Those that were sent before the activation are in force
# until the switch; those that are solved meanwhile wait for its end, and are then for a placement that is
# no longer there.
# Shows WEIGHTS_DURING_ACTIVATION.
# Shows VERSION_NOT_RESET.
world adaptive overlap 1 interval 10s
forward ddd
> manager: forward 1 has an empty command
> manager: a solve of weights is due
advance 10s
> manager: a policy run is due
policy done
> policy: layer 0, peak 15 now and 14 planned: publish

# Weights need no decode boundary: they go with the prefill. The prepare waits.
solved layer 0 expert 0 75
submit ppp
> manager: forward 2 brings layer 0 weights (version 1 of generation 0)
all start
> ranks 0, 1, 2: takes weights of layer 0, version 1
all finish
output
> manager: a solve of weights is due
submit ddd
> manager: forward 3 prepares layer 0 (prepare 1 on generation 0: 0 1 | 1 0 | 2 0)
> manager: layer 0 is preparing
all start
> ranks 0, 1, 2: prepare 1 queued
all prepare
> ranks 0, 1, 2: prepare 1 done
all finish
output
> ranks 0, 1, 2: reported prepare 1 ok
> manager: layer 0 is ready

# Forward 4 activates the layer. What was solved just before waits from this command on, and with the
# next one too: with overlap it is submitted before anybody knows how the activation ends.
solved layer 0 expert 0 60
> manager: a solve of weights is due
submit ddd
> record: activation 2 is open
> manager: forward 4 activates layer 0 (activation 2 of prepare 1)
> manager: layer 0 is activating
solved layer 0 expert 0 55
submit ddd
> manager: forward 5 has an empty command
all start
> rank 0: materialised for activation 2
> rank 0: send posted: 0->1 slot 3 of activation 2
> rank 1: materialised for activation 2
> rank 1: receive posted: 0->1 slot 3 of activation 2
> rank 2: materialised for activation 2
> rank 2: vote yes on activation 2
deliver all
> ranks 0, 1: vote yes on activation 2
> record: activation 2 is committed
all finish
> ranks 0, 1, 2: waiting for activation 2
all poll
> ranks 0, 1, 2: layer 0 switched to generation 1
output
> ranks 0, 1, 2: reported activation 2 switched
> manager: layer 0 is committed, generation 1
> manager: a solve of weights is due
> manager: the round is over
submit ddd
> manager: forward 6 has an empty command
all start
all finish
output
all start
all finish
output

# The switch has ended them: the new placement has its own first weights, as version 0.
window layer 0
> window of layer 0: tokens of experts 150 45 15, of slots 18 6 12 18 6 24, generation 1
state
> layer 0: generation 1 committed, 0 1 | 1 0 | 2 0
> rank 0: layer 0 runs under generation 1, 0 1 | 1 0 | 2 0
> rank 0: layer 0 has weights of version 0
> rank 1: layer 0 runs under generation 1, 0 1 | 1 0 | 2 0
> rank 1: layer 0 has weights of version 0
> rank 2: layer 0 runs under generation 1, 0 1 | 1 0 | 2 0
> rank 2: layer 0 has weights of version 0
solved layer 0 expert 0 40
> manager: a solve of weights is due
forward ddd
> manager: forward 7 brings layer 0 weights (version 1 of generation 1)
> ranks 0, 1, 2: takes weights of layer 0, version 1
window layer 0
> window of layer 0: tokens of experts 180 54 18, of slots 9 3 6 9 3 12, generation 1
state
> layer 0: generation 1 committed, 0 1 | 1 0 | 2 0
> rank 0: layer 0 runs under generation 1, 0 1 | 1 0 | 2 0
> rank 0: layer 0 has weights of version 1
> rank 1: layer 0 runs under generation 1, 0 1 | 1 0 | 2 0
> rank 1: layer 0 has weights of version 1
> rank 2: layer 0 runs under generation 1, 0 1 | 1 0 | 2 0
> rank 2: layer 0 has weights of version 1
