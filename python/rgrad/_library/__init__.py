"""Operations that a program defines: their schemas, what computes and differentiates them, and checks of both."""
