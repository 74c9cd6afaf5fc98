# Commands go only with a forward in which every DP batch that is not empty decodes. A ready layer
# waits for one.
given forward ddd
given advance 1000s
given policy done
given forward ddd

# Prefill, a mixed batch, nothing to do, graph warm-up: no.
forward ppp
> manager: forward 3 has an empty command
forward dpd
> manager: forward 4 has an empty command
forward dmd
> manager: forward 5 has an empty command
forward ---
> manager: forward 6 has an empty command
forward warmup ddd
> manager: forward 7 has an empty command

# Empty DP ranks do not matter: they take part with an empty forward.
forward --d
> record: activation 2 is open
> manager: forward 8 activates layer 0 (activation 2 of prepare 1)
> manager: layer 0 is activating
> rank 0: materialised for activation 2
> rank 0: send posted: 0->1 slot 3 of activation 2
> rank 1: materialised for activation 2
> rank 1: receive posted: 0->1 slot 3 of activation 2
> rank 2: materialised for activation 2
> rank 2: vote yes on activation 2
> ranks 0, 1: vote yes on activation 2
> record: activation 2 is committed
> ranks 0, 1, 2: waiting for activation 2
> ranks 0, 1, 2: layer 0 switched to generation 1
> ranks 0, 1, 2: reported activation 2 switched
> manager: layer 0 is committed, generation 1
> manager: the round is over
