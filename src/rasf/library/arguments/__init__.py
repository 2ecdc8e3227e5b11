"""The arguments of training: their declaration, their readers, and the environment, agent and tasks made from them."""
