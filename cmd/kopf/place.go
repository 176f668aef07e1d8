package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// defaultFinalizer is that of the library, and of kopf. [wire]
const defaultFinalizer = "kopf.zalando.org/KopfFinalizerMarker"

// A place is where an operator leaves things on objects.
type place struct {
	finalizer string
	prefix    string
}

func (p *place) bind(fs *pflag.FlagSet) {
	fs.StringVar(&p.finalizer, "finalizer", defaultFinalizer, "the finalizer of the operator: that of WithFinalizer")
	fs.StringVar(&p.prefix, "prefix", progress.DefaultPrefix, "the prefix of its annotations: that of WithProgress and WithBaseline")
}

func (p *place) check() error {
	if !strings.Contains(p.finalizer, "/") {
		return fmt.Errorf("--finalizer is %q: give the whole name, such as %q", p.finalizer, defaultFinalizer)
	}
	if err := validation.Subdomain(p.prefix); err != nil {
		return fmt.Errorf("--prefix is %q: %w; give what is before the slash, such as %q", p.prefix, err, progress.DefaultPrefix)
	}
	return nil
}

func (p *place) store() progress.Store {
	if p.prefix == progress.DefaultPrefix {
		return progress.Smart()
	}
	return progress.Annotations(p.prefix)
}

func (p *place) baseline() progress.Baseline { return progress.AnnotationBaseline(p.prefix) }

// lastHandled is the baseline with the digests of objects that are too large for it.
func (p *place) lastHandled() essence.DigestBaseline {
	return essence.WithDigests(p.baseline(), p.store())
}

func (p *place) pin() progress.Baseline { return progress.Pin(p.baseline(), p.store()) }

func (p *place) holds(obj *unstructured.Unstructured) bool {
	return slices.Contains(obj.GetFinalizers(), p.finalizer)
}

// annotations are the keys of all that the operator has left there, sorted. All below kopf's own prefix are; below another
// one there may be some of the author of the kind, so only what has the name or the form of one of ours is.
func (p *place) annotations(obj *unstructured.Unstructured) (keys []string) {
	rest := obj.DeepCopy()
	p.lastHandled().Clear(rest.Object)
	p.pin().Clear(rest.Object)
	if p.prefix == progress.DefaultPrefix {
		p.store().Clear(rest.Object)
	}
	others := rest.GetAnnotations()
	for _, key := range slices.Sorted(maps.Keys(obj.GetAnnotations())) {
		value, still := others[key]
		name, below := strings.CutPrefix(key, p.prefix+"/")
		if !still || below && (isHelper(name) || isRecord(value)) {
			keys = append(keys, key)
		}
	}
	return keys
}

// extras are the keys of the annotations that kopf in Python does not know, sorted.
func (p *place) extras(obj *unstructured.Unstructured) (keys []string) {
	rest := obj.DeepCopy()
	p.pin().Clear(rest.Object)
	progress.Digest(p.baseline(), p.store()).Clear(rest.Object)
	others := rest.GetAnnotations()
	for _, key := range slices.Sorted(maps.Keys(obj.GetAnnotations())) {
		if _, still := others[key]; !still {
			keys = append(keys, key)
		}
	}
	return keys
}

// isHelper knows the annotations beside records and baseline, also by the names that replica sets have. [wire]
func isHelper(name string) bool {
	name = strings.TrimSuffix(name, "-ofDRS")
	return name == "kopf-managed" || name == "touch-dummy"
}

func isRecord(value string) bool {
	var fields map[string]any
	if json.Unmarshal([]byte(value), &fields) != nil {
		return false
	}
	_, succeeded := fields["success"].(bool)
	_, failed := fields["failure"].(bool)
	return succeeded && failed
}
