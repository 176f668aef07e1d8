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
		"no annotation and an annotation":  {[]webhooks.Option{webhooks.NoAnnotation("tier"), webhooks.Annotation("tier")}, nil},
		"a field":                          {[]webhooks.Option{webhooks.Field("spec.color")}, withColor},
		"a field with a number":            {[]webhooks.Option{webhooks.Field("spec.size", 2)}, []string{"create big", "red to big"}},
		"a field with values":              {[]webhooks.Option{webhooks.Field("spec.color", "blue", "red")}, withColor},
		"a field with a list":              {[]webhooks.Option{webhooks.Field("spec.extra.deep", []int{1, 3})}, []string{"red to deep"}},
		"a field below a text":             {[]webhooks.Option{webhooks.Field("spec.color.red")}, nil},
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
	for want, opt := range map[string]webhooks.Option{
		`Annotation("a b") can never match`:   webhooks.Annotation("a b"),
		`NoAnnotation("a b") can never match`: webhooks.NoAnnotation("a b"),
		`Field("spec."): the path has an`:     webhooks.Field("spec."),
		`FieldChanged(""): the path has an`:   webhooks.FieldChanged(""),
		"has no JSON form":                    webhooks.Field("spec.size", make(chan int)),
		"When(nil)":                           webhooks.When[*corev1.Pod](nil),
		"the predicate is for *v1.Pod":        webhooks.When(func(*webhooks.Request[*corev1.Pod]) bool { return true }),
	} {
		NewWithT(t).Expect(validate(accept, opt).Check()).To(MatchError(ContainSubstring(want)))
	}
}
