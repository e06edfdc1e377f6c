"""What learners implement: each module is one technique, written as its formula. Needs PyTorch."""
