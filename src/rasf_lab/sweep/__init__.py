"""Many runs: declared as data, spread over processes or machines, resumed after any fault."""
