"""Operations, time and memory of training and of evaluation."""
