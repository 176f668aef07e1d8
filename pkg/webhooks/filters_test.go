package webhooks_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

func TestHook_Filters(t *testing.T) {
	annotated := strings.Replace(red, `"name":"a"`, `"name":"a","annotations":{"tier":"gold"}`, 1)
	big, blank := strings.Replace(red, `"size":1`, `"size":2`, 1), strings.Replace(red, `"color":"red",`, ``, 1)
	deep := strings.Replace(red, `[1,2]`, `[1,3]`, 1)
	requests := map[string][]func(map[string]any){
		"create red":           nil,
		"create annotated":     {with("object", json.RawMessage(annotated))},
		"create big":           {with("object", json.RawMessage(big))},
		"create blank":         {with("object", json.RawMessage(blank))},
		"red unchanged":        {update(red)},
		"red to big":           {with("object", json.RawMessage(big)), update(red)},
		"red to deep":          {with("object", json.RawMessage(deep)), update(red)},
		"red to annotated":     {with("object", json.RawMessage(annotated)), update(red)},
		"annotated to red":     {update(annotated)},
		"red to blank":         {with("object", json.RawMessage(blank)), update(red)},
		"delete red":           {deletion},
		"delete annotated":     {with("object", json.RawMessage(annotated)), deletion},
		"delete the blank one": {with("object", json.RawMessage(blank)), deletion},
	}
	annotatedOnes := []string{"create annotated", "red to annotated", "delete annotated"}
	withColor := []string{
		"create red", "create annotated", "create big", "red unchanged", "red to big", "red to deep", "red to annotated", "annotated to red", "delete red", "delete annotated",
	}
	for name, test := range map[string]struct {
		options []webhooks.Option
		want    []string
	}{
		"an annotation":                    {[]webhooks.Option{webhooks.Annotation("tier")}, annotatedOnes},
		"an annotation with values":        {[]webhooks.Option{webhooks.Annotation("tier", "lead", "gold")}, annotatedOnes},
		"an annotation with another value": {[]webhooks.Option{webhooks.Annotation("tier", "lead")}, nil},
		"a field":                          {[]webhooks.Option{webhooks.Field("spec.color")}, withColor},
		"a field with a number":            {[]webhooks.Option{webhooks.Field("spec.size", 2)}, []string{"create big", "red to big"}},
		"a field with values":              {[]webhooks.Option{webhooks.Field("spec.color", "blue", "red")}, withColor},
		"a field with a list":              {[]webhooks.Option{webhooks.Field("spec.extra.deep", []int{1, 3})}, []string{"red to deep"}},
		"a changed field": {[]webhooks.Option{webhooks.FieldChanged("spec.color")}, append([]string{
			"red to blank",
		}, "create red", "create annotated", "create big", "delete red", "delete annotated")},
		"a changed part of a field": {
			[]webhooks.Option{webhooks.FieldChanged("spec.extra"), webhooks.Operations("UPDATE"), isUpdate()}, []string{"red to deep"},
		},
		"a predicate": {[]webhooks.Option{isUpdate(), webhooks.When(func(req *widgetRequest) bool {
			return req.Object.Spec.Size > req.Old.Spec.Size
		})}, []string{"red to big"}},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			b := serve(t, validate(func(context.Context, *widgetRequest) error {
				calls++
				return nil
			}, test.options...))
			for request, edit := range requests {
				calls = 0
				_, got := b.post("/v", review(edit...))
				want := 0
				for _, one := range test.want {
					if one == request {
						want = 1
					}
				}
				NewWithT(t).Expect(calls).To(Equal(want), request)
				NewWithT(t).Expect(got.Response.Allowed).To(BeTrue(), request)
			}
		})
	}
}

func isUpdate() webhooks.Option {
	return webhooks.When(func(req *widgetRequest) bool { return req.Operation == admissionv1.Update })
}

// A request that a filter excludes is allowed, also if the handler would deny or change it. A panic of a predicate denies the request.
func TestHook_FiltersDecideBeforeTheHandler(t *testing.T) {
	g := NewWithT(t)
	paint := func(_ context.Context, req *widgetRequest) error {
		req.Object.Spec.Color = "blue"
		return nil
	}
	_, got := serve(t, mutate(paint, webhooks.Field("spec.size", 7))).post("/m", review())
	g.Expect(got.Response.Allowed).To(BeTrue())
	g.Expect(got.Response.Patch).To(BeEmpty())
	_, got = serve(t, mutate(paint, webhooks.Field("spec.size", 1))).post("/m", review())
	g.Expect(string(got.Response.Patch)).To(ContainSubstring("blue"))
	b := serve(t, validate(accept, webhooks.When(func(*widgetRequest) bool { panic("oops") })))
	_, got = b.post("/v", review())
	g.Expect(got.Response.Allowed).To(BeFalse())
}

func TestHook_FilterMistakes(t *testing.T) {
	for want, opts := range map[string][]webhooks.Option{
		`Annotation("a b") can never match`:   {webhooks.Annotation("a b")},
		`NoAnnotation("a b") can never match`: {webhooks.NoAnnotation("a b")},
		`Field("spec."): the path has an`:     {webhooks.Field("spec.")},
		`FieldChanged(""): the path has an`:   {webhooks.FieldChanged("")},
		"has no JSON form":                    {webhooks.Field("spec.size", make(chan int))},
		"When(nil)":                           {webhooks.When[*corev1.Pod](nil)},
		"the predicate is for *v1.Pod":        {webhooks.When(func(*webhooks.Request[*corev1.Pod]) bool { return true })},

		// Fields that the Go type does not have, and values that its fields cannot have.
		`Field("spec.colour"): the Go type *v1.Widget has no field spec.colour; did you mean spec.color? If`: {webhooks.Field("spec.colour")},
		`FieldChanged("spec.sise"): the Go type *v1.Widget has no field spec.sise; did you mean spec.size?`:  {webhooks.FieldChanged("spec.sise")},
		`Field("spec.size", "7"): "7" can never match: the field is an integer: use 7`:                       {webhooks.Field("spec.size", "7")},

		// Options that are mutually exclusive.
		`Annotation("a") can never match: NoAnnotation("a") and Annotation("a") are mutually exclusive`:             {webhooks.NoAnnotation("a"), webhooks.Annotation("a")},
		`Annotation("a", "c") can never match: Annotation("a", "b") and Annotation("a", "c") are mutually`:          {webhooks.Annotation("a", "b"), webhooks.Annotation("a", "c")},
		`NoLabel("a") can never match: Label("a", "b") and NoLabel("a") are mutually exclusive`:                     {webhooks.Label("a", "b"), webhooks.NoLabel("a")},
		`Label("a", "d") can never match: Label("a", "b", "c") and Label("a", "d") are mutually exclusive`:          {webhooks.Label("a", "b", "c"), webhooks.Label("a", "d")},
		`Field("spec.size", 2) can never match: Field("spec.size", 1) and Field("spec.size", 2) are mutually`:       {webhooks.Field("spec.size", 1), webhooks.Field("spec.size", 2)},
		`Label("a", "b", "c") and Label("a", "c", "d") and Label("a", "d", "b") are mutually exclusive: remove one`: {webhooks.Label("a", "b", "c"), webhooks.Label("a", "c", "d"), webhooks.Label("a", "d", "b")},
	} {
		NewWithT(t).Expect(validate(accept, opts...).Check()).To(MatchError(ContainSubstring(want)))
	}
	for name, opts := range map[string][]webhooks.Option{
		"a label and one of its values":          {webhooks.Label("a"), webhooks.Label("a", "b", "c"), webhooks.Label("a", "c", "d")},
		"different keys":                         {webhooks.Label("a", "b"), webhooks.Annotation("a", "c"), webhooks.NoLabel("b"), webhooks.NoAnnotation("b")},
		"a changed field with a value":           {webhooks.FieldChanged("spec.size"), webhooks.Field("spec.size", 1.0), webhooks.Field("spec.size", 1)},
		"a field that the Go type does not have": {webhooks.Field("spec.extra.deep"), webhooks.FieldChanged("spec.else")},
		"a field of a label":                     {webhooks.Field(`metadata.labels.example\.com/tier`, "gold")},
		"a field that only the server writes":    {webhooks.Field("metadata.creationTimestamp")},
	} {
		NewWithT(t).Expect(validate(accept, opts...).Check()).To(Succeed(), name)
	}
}
