# sum_tests.awk: reads CTest's LastTest.log and prints "N passed, N failed", counting the cases that cmocka
# reports. A program that did not succeed and reported no failed case (a crash, a time limit) counts as one
# failed case; one that succeeded without reporting any as one passed.
function close_program() {
    if (begun && good && passed + failed == 0) passed = 1
    if (begun && !good && failed == 0) failed = 1
    all_passed += passed; all_failed += failed
    passed = failed = begun = good = 0
}
/^[0-9]+\/[0-9]+ Testing: / { close_program(); begun = 1 }
/^\[  PASSED  \] [0-9]+ test/ { passed += $4 }
/^\[  FAILED  \] [0-9]+ test/ { failed += $4 }
/^Test Passed\.$/ { good = 1 }
END { close_program(); printf "%d passed, %d failed\n", all_passed, all_failed }
