//! Integration tests of the crate.

mod allocation;
mod anytime;
mod blocks;
mod budgets;
mod cfn_import;
mod checking;
mod decompositions;
mod exactness;
mod exports;
#[cfg(unix)]
mod external;
mod files;
mod fuzz;
mod generators;
mod heuristics;
mod imports;
mod instances;
mod problems;
mod rules;
mod scale;
mod solvers;
mod support;
