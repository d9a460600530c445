"""Whether a stranger's capsule may execute its code here, and which capsules are one's own."""
