// Package conditionstest has matchers for gomega that look at the conditions of an object.
//
//	Eventually(Object(db)).Should(HaveCondition("Ready", metav1.ConditionTrue).WithReason("AsExpected").OfGeneration(2))
//
// # Flow
//
// [HaveCondition] takes any object that package conditions takes, or a *conditions.Set, or a list of conditions.
//
// # Guarantees
//
// A failure shows all conditions of the object.
//
// # Assumptions
//
// The conditions are where [conditions.For] finds them; otherwise give the set.
//
// # Caveats
//
// A condition that is not there is not Unknown here: tests say what they mean.
//
// # Errors
//
// Anything else is an error of the assertion, not a mismatch, so that Not does not hide it.
package conditionstest
