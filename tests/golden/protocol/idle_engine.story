# An engine with nothing to run times nothing out: no forward, no report, and so no silence.
given forward ddd
given advance 1000s
given policy done

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
advance 1000s
advance 1000s

# The first output after the pause brings the reports.
forward ---
> manager: forward 3 has an empty command
> ranks 0, 1, 2: reported prepare 1 ok
> manager: layer 0 is ready
forward ddd
> record: activation 2 is open
> manager: forward 4 activates layer 0 (activation 2 of prepare 1)
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
> manager: a policy run is due
