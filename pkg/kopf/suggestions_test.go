package kopf_test

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/events"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Errors for unknown fields suggest a similar field.
func TestCheckDeclaration_SuggestsFields(t *testing.T) {
	for _, test := range []struct {
		given kopf.Option
		words []string
	}{
		{onField("spec.sise"), []string{`Thing: OnField("h"): Field("spec.sise")`, "no field spec.sise", "correct the path; did you mean spec.size?"}},
		{onUpdate(kopf.Field("Spec.Size")), []string{`Field("Spec.Size")`, "no field Spec", "did you mean spec.size?"}},
		{onUpdate(kopf.Field("spec.Size")), []string{"no field spec.Size", "did you mean spec.size?"}},
		{onUpdate(kopf.Field("sepc.sise")), []string{"no field sepc:", "did you mean spec.size?"}},
		{onUpdate(kopf.Field("sepc.nowhere")), []string{"no field sepc:", "did you mean spec?"}},
		{onUpdate(kopf.Field("spec.colour")), []string{"no field spec.colour", "did you mean spec.color?"}},
		{onUpdate(kopf.Field("spec.parts.wheel.nmae")), []string{"no field spec.parts.wheel.nmae", "did you mean spec.parts.wheel.name?"}},
		{onUpdate(kopf.Field("spec.Replcas")), []string{"no field spec.Replcas", "did you mean spec.replicas?"}},
		{onUpdate(kopf.Field("metadata.labels.example.com/tier")), []string{"no field metadata.labels.example.com/tier", `did you mean metadata.labels.example\.com/tier?`}},
		{onUpdate(kopf.Field("spec.size.")), []string{`Field("spec.size.")`, "empty key", "did you mean spec.size?"}},
		{onUpdate(kopf.Field(".spec.size")), []string{`Field(".spec.size")`, "empty key", "did you mean spec.size?"}},
		{onUpdate(kopf.Field("nothing.like.it")), []string{"no field nothing: correct the path"}},
	} {
		t.Run(strings.Join(test.words, " "), func(t *testing.T) { wantError(t, test.given, test.words) })
	}
}

// A value that the Go type of the field cannot have is an error that suggests another value.
func TestCheckDeclaration_ImpossibleValues(t *testing.T) {
	size := func(m ...filter.Matcher) kopf.Option { return onUpdate(kopf.Field("spec.size", m...)) }
	color := func(m ...filter.Matcher) kopf.Option { return onUpdate(kopf.Field("spec.color", m...)) }
	on := func(m ...filter.Matcher) kopf.Option { return onUpdate(kopf.Field("spec.on", m...)) }
	for _, test := range []struct {
		name  string
		given kopf.Option
		words []string
	}{
		{"a string for an integer", size(filter.Equal("10")), []string{`Thing: OnUpdate("h"): Field("spec.size")`, `"10" can never match`, "is an integer", "use 10"}},
		{"a word for an integer", size(filter.Equal("ten")), []string{`"ten" can never match`, "is an integer", "use a whole number"}},
		{"a fraction for an integer", size(filter.Equal(1.5)), []string{"1.5 can never match", "is an integer", "use a whole number"}},
		{"a boolean for an integer", size(filter.Equal(true)), []string{"true can never match", "is an integer"}},
		{"From", size(filter.From("10"), filter.To(1)), []string{`"10" can never match`, "use 10"}},
		{"To", size(filter.To("10")), []string{`"10" can never match`, "use 10"}},
		{"within Not", size(filter.Not(filter.Equal("10"))), []string{`"10" excludes nothing`, "use 10"}},
		{"within Any within To", size(filter.To(filter.Any(filter.Equal(1), filter.Equal("10")))), []string{`"10" can never match`, "use 10"}},
		{"a boolean for a string", color(filter.Equal(true)), []string{`Field("spec.color")`, "true can never match", "is a string", `use "true"`}},
		{"a number for a string", color(filter.Equal(1)), []string{"1 can never match", "is a string", `use "1"`}},
		{"a list for a string", color(filter.Equal([]string{"red"})), []string{`["red"] can never match`, "is a string"}},
		{"a string for a boolean", on(filter.Equal("true")), []string{`"true" can never match`, "is a boolean", "use true"}},
		{"a string for a list", onUpdate(kopf.Field("spec.list", filter.Equal("a"))), []string{`"a" can never match`, "is a list", "use a list"}},
		{"a string for an object", onUpdate(kopf.Field("spec.parts", filter.Equal("a"))), []string{`"a" can never match`, "is an object", "use an object"}},
		{"a number for a label", onUpdate(kopf.Field("metadata.labels.tier", filter.Equal(1))), []string{"1 can never match", "is a string", `use "1"`}},
		{"false, which the Go type omits", on(filter.Equal(false)), []string{`Field("spec.on")`, "false can never match", "omits", "use Absent"}},
		{"zero, which the Go type omits", onUpdate(kopf.Field("spec.replicas", filter.Not(filter.Equal(0)))), []string{"0 excludes nothing", "omits", "use Present"}},
		{"an empty string that the Go type omits", onUpdate(kopf.Field("spec.note", filter.To(""))), []string{`"" can never match`, "omits", "use Absent"}},

		{"a number for a label, within Any", onCreate(kopf.Label("a", filter.Any(filter.Equal(1), filter.Absent))), []string{`Label("a")`, "1 can never match", "strings", `use "1"`}},
		{"a boolean for an annotation, within Not", onCreate(kopf.Annotation("a", filter.Not(filter.Equal(true)))), []string{`Annotation("a")`, "true can never match", "strings", `use "true"`}},
		{"an invalid label value within Any", onCreate(kopf.Label("a", filter.Any(filter.Equal("b c")))), []string{`Label("a")`, "can never match", `"b c"`, "contains ' '"}},
	} {
		t.Run(test.name, func(t *testing.T) { wantError(t, test.given, test.words) })
	}
	for name, given := range map[string]kopf.Option{
		"an integer":                                   size(filter.Equal(10), filter.Not(filter.Equal(11))),
		"a whole number as a float":                    size(filter.Equal(10.0)),
		"zero of a pointer":                            size(filter.Equal(0)),
		"a typed string":                               color(filter.Equal(metav1.ConditionTrue)),
		"an empty string that is not omitted":          color(filter.Equal("")),
		"true, which is not omitted":                   on(filter.Equal(true)),
		"false or absent":                              on(filter.Any(filter.Absent, filter.Equal(false))),
		"false in an old state":                        on(filter.From(false)),
		"a time as a string":                           onUpdate(kopf.Field("spec.when", filter.Equal("2020-01-01T00:00:00Z"))),
		"a number or a string":                         onUpdate(kopf.Field("spec.port", filter.Any(filter.Equal(80), filter.Equal("http")))),
		"anything":                                     onUpdate(kopf.Field("spec.any", filter.Equal("10"))),
		"bytes as a string":                            onUpdate(kopf.Field("spec.bytes", filter.Equal("MTA="))),
		"a fraction":                                   onUpdate(kopf.Field("spec.ratio", filter.Equal(1), filter.Not(filter.Equal(1.5)))),
		"a number that is written as a string in JSON": onUpdate(kopf.Field("spec.quoted", filter.Equal("10"))),
	} {
		t.Run("valid: "+name, func(t *testing.T) { wantValid(t, given) })
	}
}

// A duration without a unit is an error.
func TestCheckDeclaration_DurationsWithoutUnit(t *testing.T) {
	const unit = "5ns; durations need a unit: 5*time.Second"
	for name, test := range map[string]struct {
		given kopf.Option
		words []string
	}{
		"Timer":               {timer(5), []string{`Thing: Timer("h"): `, "Interval is " + unit}},
		"Backoff":             {onCreate(kopf.Backoff(30)), []string{`Thing: OnCreate("h"): Backoff is 30ns; durations need a unit: 30*time.Second`}},
		"Timeout":             {onCreate(kopf.Timeout(5)), []string{"Timeout is " + unit}},
		"AttemptTimeout":      {onCreate(kopf.AttemptTimeout(5)), []string{"AttemptTimeout is " + unit}},
		"Interval":            {onReconcile(kopf.Interval(5)), []string{`Thing: OnReconcile("h"): Interval is ` + unit}},
		"Idle":                {timerWith(daemons.Timer{Idle: 5}), []string{"Idle is " + unit}},
		"InitialDelay":        {daemon(kopf.InitialDelay(5)), []string{"InitialDelay is " + unit}},
		"CancellationBackoff": {daemonWith(daemons.Daemon{CancellationBackoff: new(time.Duration(5))}), []string{"CancellationBackoff is " + unit}},
		"CancellationTimeout": {daemonWith(daemons.Daemon{CancellationTimeout: new(time.Duration(5))}), []string{"CancellationTimeout is " + unit}},
		"microseconds":        {onCreate(kopf.Backoff(5 * time.Microsecond)), []string{"Backoff is 5µs, which is less than 1ms; durations need a unit, such as 5*time.Second"}},
		"WithCheckpoint":      {kopf.WithCheckpoint(5), []string{"WithCheckpoint is " + unit}},
		"WithStuckAfter":      {kopf.WithStuckAfter(5), []string{"WithStuckAfter is " + unit}},
		"WithPeering":         {kopf.WithPeering(peering.Options{Lifetime: 5}), []string{"WithPeering: ", "Lifetime is " + unit}},
		"OnStartup":           {kopf.OnStartup("h", func(context.Context) error { return nil }, kopf.Backoff(5)), []string{`OnStartup("h"): Backoff is ` + unit}},
		"a timeout of zero":   {onCreate(kopf.Timeout(0)), []string{`Thing: OnCreate("h"): Timeout must be positive, got 0s`, "leave it out for no limit"}},
	} {
		t.Run(name, func(t *testing.T) { wantError(t, test.given, test.words) })
	}
	for name, given := range map[string]kopf.Option{
		"a millisecond":        timer(time.Millisecond),
		"no attempt":           onCreate(kopf.Retries(0)),
		"no pause":             onCreate(kopf.Backoff(0)),
		"no limit per attempt": onCreate(kopf.AttemptTimeout(0)),
	} {
		t.Run("valid: "+name, func(t *testing.T) { wantValid(t, given) })
	}
}

// Errors for invalid names explain the problem without regular expressions.
func TestCheckDeclaration_ExplainsInvalidNames(t *testing.T) {
	for name, test := range map[string]struct {
		given kopf.Option
		words []string
	}{
		"a label":         {onCreate(kopf.Label("a b")), []string{`Label("a b") can never match: the key is invalid: it contains ' ': use letters, digits, '-', '_' and '.'`}},
		"a domain":        {onCreate(kopf.Annotation("Example.com/a")), []string{"the domain before the '/'", "it contains 'E'", "lower-case"}},
		"a label value":   {onCreate(kopf.Label("a", filter.Equal("b c"))), []string{`"b c" is not a valid label value: it contains ' '`}},
		"a finalizer":     {kopf.WithFinalizer("example.com/my own"), []string{`WithFinalizer("example.com/my own")`, "it contains ' '", `"example.com/finalizer"`}},
		"Kubernetes' own": {kopf.WithFinalizer("orphan"), []string{`WithFinalizer("orphan"): the name is not valid: it belongs to Kubernetes`, `"example.com/finalizer"`}},
		"a handler's id":  {newThings().OnCreate("a:b", noop), []string{`id "a:b" cannot be stored`, "it contains ':'"}},
		"a prefix":        {kopf.WithBaseline(progress.AnnotationBaseline("my prefix")), []string{`prefix "my prefix"`, "it contains ' '"}},
		"a peering":       {kopf.WithPeering(peering.Options{Name: "My"}), []string{`Name "My" is invalid: it contains 'M'`}},
		"a namespace":     {kopf.WithPeering(peering.Options{Namespaces: []string{"a.b"}}), []string{`"a.b", which is invalid: it contains '.'`}},
		"a component":     {kopf.WithEvents(events.Options{KopfForm: &events.KopfForm{Component: "a b"}}), []string{`Component "a b"`, "it contains ' '"}},
	} {
		t.Run(name, func(t *testing.T) {
			wantError(t, test.given, test.words)
			if err := kopf.New(newManager(), withResource(test.given)...).CheckDeclaration(); strings.Contains(err.Error(), "regex") {
				t.Errorf("error = %s, want no regular expression", err)
			}
		})
	}
}
