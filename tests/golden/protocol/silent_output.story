# The output of the forward that carried the prepare does not come. Then the timeout counts twice, from
# the submission, and is judged when a later forward has itself been in flight for the timeout.
world overlap 1 prepare_timeout 30s
given forward ddd
given advance 1000s
given policy done

submit ddd
> manager: forward 2 prepares layer 0 (prepare 1 on generation 0: 0 1 | 1 0 | 2 0)
> manager: layer 0 is preparing
advance 31s
submit ddd
> manager: forward 3 has an empty command
advance 29.9s
advance 100ms
> manager warns: layer 0: rank 0 has not prepared in time (prepare_token 1); the layer is skipped
> manager warns: layer 0: rank 1 has not prepared in time (prepare_token 1); the layer is skipped
> manager warns: layer 0: rank 2 has not prepared in time (prepare_token 1); the layer is skipped
> manager: layer 0 is given up: not all ranks prepared in time
> manager: the round is over
