// Package filter provides matchers for the values of labels, annotations and fields. Pass matchers to the options kopf.Label,
// kopf.Annotation and kopf.Field.
//
//	kopf.For(&v1.Database{}).
//		OnCreate("provision", provision, kopf.Label("tier", filter.Any(filter.Equal("gold"), filter.Equal("silver")))).
//		OnUpdate("grow", grow, kopf.Field("spec.size", filter.From(filter.Present)))
//
// A matcher receives the value in its JSON form, or nil if the label, annotation or field is absent. If an option has several matchers, all
// of them must pass. The operator refuses to start if a matcher is invalid or can never pass.
package filter
