"""The capsule file: a bag that holds a crate, in one deterministic zip, and the one strict reader."""
