//! The suite, on its own reference sink, which has every optional part.

use cofferdam_conformance::conformance_tests;
use cofferdam_conformance::reference::ReferenceFactory;

conformance_tests!(ReferenceFactory, report = "reports/reference.json");
