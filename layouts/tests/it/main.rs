//! Integration tests of the crate.

mod anytime;
mod budgets;
mod checking;
mod decompositions;
mod exactness;
mod exports;
mod files;
mod generators;
mod heuristics;
mod imports;
mod instances;
mod problems;
mod rules;
mod scale;
mod solvers;
mod support;
