"""Settings that change while the broker runs: asked for, checked, stored and put in force."""
