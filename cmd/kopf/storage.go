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
	"github.com/kopf-runtime/kopf-runtime/internal/parts/retry"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// defaultFinalizer is the default finalizer of this library and of kopf.
const defaultFinalizer = "kopf.zalando.org/KopfFinalizerMarker"

// A storage describes where an operator stores its state on objects.
type storage struct {
	finalizer string
	prefix    string
}

func (p *storage) bind(fs *pflag.FlagSet) {
	fs.StringVar(&p.finalizer, "finalizer", defaultFinalizer, "finalizer of the operator (WithFinalizer)")
	fs.StringVar(&p.prefix, "prefix", progress.DefaultPrefix, "prefix of the operator's annotations (WithProgress, WithBaseline)")
}

func (p *storage) check() error {
	if !strings.Contains(p.finalizer, "/") {
		return fmt.Errorf("--finalizer is %q: set the full name, such as %q", p.finalizer, defaultFinalizer)
	}
	if err := validation.Subdomain(p.prefix); err != nil {
		return fmt.Errorf("--prefix is %q: %w; set the part before the slash, such as %q", p.prefix, err, progress.DefaultPrefix)
	}
	return nil
}

func (p *storage) store() progress.Store {
	if p.prefix == progress.DefaultPrefix {
		return progress.Smart()
	}
	return progress.Annotations(p.prefix)
}

func (p *storage) baseline() progress.Baseline { return progress.AnnotationBaseline(p.prefix) }

// lastHandled returns the baseline, with digests for objects that are too large.
func (p *storage) lastHandled() essence.DigestBaseline {
	return essence.WithDigestFallback(p.baseline(), p.store())
}

func (p *storage) pin() progress.Baseline { return progress.Pin(p.baseline(), p.store()) }

func (p *storage) stamps() progress.Stamps { return progress.StampsOf(p.baseline(), p.store()) }

func (p *storage) hasFinalizer(obj *unstructured.Unstructured) bool {
	return slices.Contains(obj.GetFinalizers(), p.finalizer)
}

// annotations returns the sorted keys of the operator's annotations. For the default prefix, it returns all keys with that prefix. For a custom prefix,
// it returns only the keys of records and known names, because the author of the kind may use the same prefix.
func (p *storage) annotations(obj *unstructured.Unstructured) (keys []string) {
	rest := obj.DeepCopy()
	p.lastHandled().Clear(rest.Object)
	p.pin().Clear(rest.Object)
	p.stamps().Clear(rest.Object)
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

// extras returns the sorted keys of the annotations that kopf in Python does not know.
func (p *storage) extras(obj *unstructured.Unstructured) (keys []string) {
	rest := obj.DeepCopy()
	p.pin().Clear(rest.Object)
	p.stamps().Clear(rest.Object)
	progress.Digest(p.baseline(), p.store()).Clear(rest.Object)
	others := rest.GetAnnotations()
	for _, key := range slices.Sorted(maps.Keys(obj.GetAnnotations())) {
		if _, still := others[key]; !still {
			keys = append(keys, key)
		}
	}
	return keys
}

// isHelper reports whether kopf uses the annotation for a purpose other than records and the baseline. It ignores the suffix for ReplicaSets.
func isHelper(name string) bool {
	name = strings.TrimSuffix(name, "-ofDRS")
	return name == "kopf-managed" || name == "touch-dummy" || name == "revision" || retry.IsName(name)
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
