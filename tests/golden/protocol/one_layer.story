# One layer, from the first sample to the switch.
# Each of 3 ranks has 2 slots; expert 0 is hot, so the policy wants one more replica of it. Messages
# have two chunks here.
world chunks 2

# The first sample arms the timer; when it has fired, the policy runs.
forward ddd
> manager: forward 1 has an empty command
window layer 0
> window of layer 0: tokens of experts 30 9 3, of slots 20 6 3 2 1 10, generation 0
advance 1000s
> manager: a policy run is due
policy done
> policy: layer 0, peak 26 now and 14 planned: publish

# The prepare goes out with the next forward in which everybody decodes. It is host work: a forward
# may end before it is done.
submit ddd
> manager: forward 2 prepares layer 0 (prepare 1 on generation 0: 0 1 | 1 0 | 2 0)
> manager: layer 0 is preparing
all start
> ranks 0, 1, 2: prepare 1 queued
all finish
output
> ranks 0, 1, 2: reported prepare 1 running
all prepare
> ranks 0, 1, 2: prepare 1 done

# Levels come with every output, so the next one tells.
submit ddd
> manager: forward 3 has an empty command
all start
all finish
output
> ranks 0, 1, 2: reported prepare 1 ok
> manager: layer 0 is ready

# All ranks are ready, so the layer is activated: staging is filled and the expert travels while the
# forward runs under the old placement.
submit ddd
> record: activation 2 is open
> manager: forward 4 activates layer 0 (activation 2 of prepare 1)
> manager: layer 0 is activating
all start
> rank 0: materialised for activation 2
> rank 0: send posted: 0->1 slot 3 chunk 0 of activation 2
> rank 0: send posted: 0->1 slot 3 chunk 1 of activation 2
> rank 1: materialised for activation 2
> rank 1: receive posted: 0->1 slot 3 chunk 0 of activation 2
> rank 1: receive posted: 0->1 slot 3 chunk 1 of activation 2
> rank 2: materialised for activation 2
> rank 2: vote yes on activation 2
send 0->1 chunk 0
arrive 0->1 chunk 0
deliver 0->1 chunk 1
> ranks 0, 1: vote yes on activation 2
> record: activation 2 is committed

# The last yes has committed. Each rank switches when its forward is over and it has read so.
all finish
> ranks 0, 1, 2: waiting for activation 2
all poll
> ranks 0, 1, 2: layer 0 switched to generation 1
output
> ranks 0, 1, 2: reported activation 2 switched
> manager: layer 0 is committed, generation 1
> manager: the round is over
window layer 0
> window of layer 0: tokens of experts 90 27 9, of slots 0 0 0 0 0 0, generation 1
state
> layer 0: generation 1 committed, 0 1 | 1 0 | 2 0
> ranks 0, 1, 2: layer 0 runs under generation 1, 0 1 | 1 0 | 2 0

# The same traffic is balanced now.
forward ddd
> manager: forward 5 has an empty command
window layer 0
> window of layer 0: tokens of experts 120 36 12, of slots 10 6 3 10 3 10, generation 1
