// Package filter provides the matchers for the values of labels, annotations and fields, which the options kopf.Label,
// kopf.Annotation and kopf.Field take.
//
//	kopf.For(&v1.Database{}).
//		OnCreate("provision", provision, kopf.Label("tier", filter.Any(filter.Equal("gold"), filter.Equal("silver")))).
//		OnUpdate("grow", grow, kopf.Field("spec.size", filter.From(filter.Present)))
//
// A matcher gets the value in its JSON form, and nil if the label, annotation or field is absent. If an option has several matchers, all
// of them must pass. A matcher that is invalid or can never pass is reported when the operator is checked, before any handler is called.
package filter
