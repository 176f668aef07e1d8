// Package conditionstest has gomega matchers for conditions. [HaveCondition] accepts any object that package
// conditions supports, a *conditions.Set, or a list of conditions:
//
//	Eventually(Object(db)).Should(HaveCondition("Ready", metav1.ConditionTrue).WithReason("AsExpected").OfGeneration(2))
//
// A missing condition does not match Unknown. A failure message shows all conditions. A value of another type, or an
// object whose conditions [conditions.For] does not find, fails the assertion even with Not.
package conditionstest
