# A rank's prepare hook does not return. The timeout of 30 s runs from the output of the forward that
# carried the command, and is judged only after an output of a later forward: that one could have
# brought the report.
world layers 2
given forward ddd
given advance 1000s
given policy done

submit ddd
> manager: forward 2 prepares layer 0 (prepare 1 on generation 0: 0 1 | 1 0 | 2 0)
> manager: layer 0 is preparing
all start
> ranks 0, 1, 2: prepare 1 queued
ranks 0 1 prepare
> ranks 0, 1: prepare 1 done
rank 2 begin
all finish
advance 10s
output
> ranks 0, 1: reported prepare 1 ok
> rank 2: reported prepare 1 running

# 29.9 s after the output: not yet.
advance 29.9s
forward ddd
> manager: forward 3 has an empty command

# 30 s: time alone judges nothing, the next output does.
advance 100ms
forward ---
> manager: forward 4 has an empty command
> manager warns: layer 0: rank 2 has not prepared in time (prepare_token 1); the layer is skipped
> manager: layer 0 is given up: not all ranks prepared in time

# Other layers of the round go on, but rank 2 has one background thread, and it hangs.
submit ddd
> manager: forward 5 prepares layer 1 (prepare 2 on generation 0: 0 1 | 1 0 | 2 0)
> manager: layer 1 is preparing
all start
> ranks 0, 1, 2: prepare 2 queued
