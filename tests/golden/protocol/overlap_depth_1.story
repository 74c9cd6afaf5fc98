# Overlapped scheduling: the engine submits forward n + 1 before it has read the output of forward n.
world overlap 1
given forward ddd
given advance 1000s
given policy done

submit ddd
> manager: forward 2 prepares layer 0 (prepare 1 on generation 0: 0 1 | 1 0 | 2 0)
> manager: layer 0 is preparing
submit ddd
> manager: forward 3 has an empty command
all start
> ranks 0, 1, 2: prepare 1 queued
all prepare
> ranks 0, 1, 2: prepare 1 done
all finish
output
> ranks 0, 1, 2: reported prepare 1 ok
> manager: layer 0 is ready
submit ddd
> record: activation 2 is open
> manager: forward 4 activates layer 0 (activation 2 of prepare 1)
> manager: layer 0 is activating

# Forward 3 was submitted before the engine knew that the layer is ready. Forward 4 was not.
all start
all finish
output
submit ddd
> manager: forward 5 has an empty command

# A rank that voted starts nothing before it has read the record: forward 5 runs under the new
# placement on every rank.
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
rank 0 start
> rank 0: refused: forward 5 cannot start: activation_token 2 of layer 0 is unresolved; finish_step or abort_step of forward 4 comes first
all poll
> ranks 0, 1, 2: layer 0 switched to generation 1
all start
all finish
output
> ranks 0, 1, 2: reported activation 2 switched
> manager: layer 0 is committed, generation 1
> manager: the round is over
output
window layer 0
> window of layer 0: tokens of experts 120 36 12, of slots 10 6 3 10 3 10, generation 1
state
> layer 0: generation 1 committed, 0 1 | 1 0 | 2 0
> ranks 0, 1, 2: layer 0 runs under generation 1, 0 1 | 1 0 | 2 0
