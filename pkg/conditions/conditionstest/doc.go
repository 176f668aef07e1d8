// Package conditionstest has gomega matchers for conditions. [HaveCondition] accepts any object that package conditions supports, a
// *conditions.Set, or a list of conditions:
//
//	Eventually(Object(db)).Should(HaveCondition("Ready", metav1.ConditionTrue).WithReason("AsExpected").OfGeneration(2))
//
// A missing condition doesn't match Unknown. Failure messages show all conditions. A value of any other type, or an object whose conditions
// [conditions.For] doesn't find, fails the assertion even with Not.
package conditionstest
