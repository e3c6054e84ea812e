//! The macro that makes one test of each check.

/// Runs the suite on a sink: one test for each check, named by its claim.
///
/// Takes the type of the [`Factory`](crate::Factory). With `report = "file"`, a test more compares the report with the
/// one in that file (beside the `Cargo.toml` of the crate), so that what is promised elsewhere stands on what was seen.
/// One module has room for one suite.
#[macro_export]
macro_rules! conformance_tests {
    ($factory:ty $(, report = $report:literal)?) => {
        static RESULTS: $crate::Results = $crate::Results::new();

        /// The part of a process that is killed; does nothing by itself.
        #[test]
        fn child_process() {
            $crate::child_process::<$factory>();
        }

        $(
            #[test]
            fn the_report_is_up_to_date() {
                let file = ::std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join($report);
                RESULTS.report::<$factory>(
                    $crate::test_in(concat!(module_path!(), "::child_process")),
                    &file,
                );
            }
        )?

        $crate::for_each_check!($crate::one_test_each, $factory);
    };
}

/// Part of [`conformance_tests`].
#[doc(hidden)]
#[macro_export]
macro_rules! one_test_each {
    ($factory:ty; $($name:ident)+) => {
        $(
            #[test]
            fn $name() {
                RESULTS.test::<$factory>(
                    stringify!($name),
                    $crate::test_in(concat!(module_path!(), "::child_process")),
                );
            }
        )+
    };
}

/// Part of [`conformance_tests`].
#[doc(hidden)]
#[macro_export]
macro_rules! names {
    ($unit:ty; $($name:ident)+) => {
        /// The names of all checks.
        pub const NAMES: &[&str] = &[$(stringify!($name)),+];
    };
}
