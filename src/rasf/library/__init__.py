"""The policy library: what a user trains, keeps and acts with."""
