# Another manager takes over living workers, with the tables and generations that they run. It starts
# above every token in their levels: what they go on reporting of its predecessor means nothing to it.
world layers 2 interval 0s
given forward ddd
given policy done
given forward ddd
given forward ddd
state
> layer 0: generation 1 committed, 0 1 | 1 0 | 2 0
> ranks 0, 1, 2: layer 0 runs under generation 1, 0 1 | 1 0 | 2 0
> layer 1: generation 0 committed, 0 1 | 1 2 | 2 0
> ranks 0, 1, 2: layer 1 runs under generation 0, 0 1 | 1 2 | 2 0

manager restarts
hot layer 0 expert 1
forward ddd
> manager: forward 4 has an empty command
> manager: a policy run is due
policy done
> policy: layer 0, peak 21 now and 14 planned: publish
> policy: layer 1, peak 26 now and 14 planned: publish
forward ddd
> manager: forward 5 prepares layer 0 (prepare 4 on generation 1: 2 1 | 1 2 | 1 0)
> manager: layer 0 is preparing
> ranks 0, 1, 2: prepare 4 queued
> ranks 0, 1, 2: prepare 4 done
> ranks 0, 1, 2: reported prepare 4 ok
> manager: layer 0 is ready
forward ddd
> record: activation 5 is open
> manager: forward 6 activates layer 0 (activation 5 of prepare 4) and prepares layer 1 (prepare 6 on generation 0: 0 1 | 1 0 | 2 0)
> manager: layer 0 is activating
> manager: layer 1 is preparing
> rank 0: materialised for activation 5
> rank 0: receive posted: 2->0 slot 0 of activation 5
> rank 0: send posted: 0->2 slot 4 of activation 5
> rank 0: prepare 6 queued
> rank 1: materialised for activation 5
> rank 1: receive posted: 2->1 slot 3 of activation 5
> rank 1: prepare 6 queued
> rank 2: materialised for activation 5
> rank 2: receive posted: 0->2 slot 4 of activation 5
> rank 2: send posted: 2->0 slot 0 of activation 5
> rank 2: send posted: 2->1 slot 3 of activation 5
> rank 2: prepare 6 queued
> ranks 0, 1, 2: prepare 6 done
> rank 2: vote yes on activation 5
> ranks 0, 1: vote yes on activation 5
> record: activation 5 is committed
> ranks 0, 1, 2: waiting for activation 5
> ranks 0, 1, 2: layer 0 switched to generation 2
> ranks 0, 1, 2: reported prepare 6 ok
> ranks 0, 1, 2: reported activation 5 switched
> manager: layer 0 is committed, generation 2
> manager: layer 1 is ready
state
> layer 0: generation 2 committed, 2 1 | 1 2 | 1 0
> ranks 0, 1, 2: layer 0 runs under generation 2, 2 1 | 1 2 | 1 0
> layer 1: generation 0 committed, 0 1 | 1 2 | 2 0
> ranks 0, 1, 2: layer 1 runs under generation 0, 0 1 | 1 2 | 2 0
