//! Deduction.
