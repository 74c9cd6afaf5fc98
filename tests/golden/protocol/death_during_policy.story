# A rank dies while the policy runs: its result is for ranks that no longer are.
given forward ddd
given advance 1000s

rank 1 die
dead 1
> manager warns: rank 1 died; no layer was activating
policy done
> policy: layer 0, peak 26 now and 14 planned: publish
> manager: the round is over
submit ddd
> manager: forward 2 has an empty command
