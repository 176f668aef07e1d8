package declare

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	policyv1 "k8s.io/api/policy/v1"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// StorageOf returns a builder that clears the handlers' progress.
func StorageOf(settings *engine.Settings, kind engine.Kind) essence.Builder {
	if settings.Store == nil { // New reports it
		return essence.Builder{}
	}
	return essence.Builder{Cleaners: []essence.Cleaner{progress.ByHandler(settings.Store, kind.HandlerStores())}}
}

// EssenceOf returns a builder that clears the handlers' progress, and the fields that the baseline stores or ignores.
func EssenceOf(settings *engine.Settings, kind engine.Kind) essence.Builder {
	b := StorageOf(settings, kind)
	if settings.Baseline == nil { // New reports it
		return b
	}
	baseline, store := settings.Baseline, settings.Store
	b.Cleaners = append(b.Cleaners, essence.WithDigestFallback(baseline, store), progress.Pin(baseline, store), progress.StampsOf(baseline, store))
	return b
}

// CheckStorage returns an error if a kind's Go type lacks the fields for the progress store or the baseline, or if the remote must not
// store the kind's progress because it is confidential.
func CheckStorage(settings *engine.Settings, kind engine.Kind) error {
	var errs []error
	for _, storage := range []any{settings.Store, settings.Baseline} {
		if err := progress.CheckType(kind.New(), storage); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", kind.GVK.Kind, err))
		}
	}
	if checker, ok := settings.Remote.(progress.ConfidentialityChecker); ok && (kind.IsSecret() || kind.DigestOnly) && len(kind.Handlers.IDs()) > 0 {
		if err := checker.CheckConfidential(); err != nil {
			errs = append(errs, fmt.Errorf("%s: WithRemote: %w", kind.GVK.Kind, err))
		}
	}
	if len(kind.Revisions()) > 0 && !engine.StoresNotes(*settings, kind) {
		errs = append(errs, fmt.Errorf("%s: Revision needs progress in annotations of the objects: store it there, or remove Revision", kind.GVK.Kind))
	}
	return errors.Join(errs...)
}

// CheckIgnoredFields returns an error for each path of IgnoringFields that doesn't exist in any kind. It gives up if it doesn't know the
// fields of a kind.
func CheckIgnoredFields(settings *engine.Settings, kinds []engine.Kind) (errs []error) {
	baseline, ok := settings.Baseline.(interface{ IgnoredFields() [][]string })
	if !ok {
		return nil
	}
	for _, path := range baseline.IgnoredFields() {
		hint, missing := "", len(kinds) > 0
		for _, kind := range kinds {
			if kind.New == nil { // this kind has a different error
				return nil
			}
			root := validation.GoType(reflect.TypeOf(kind.New()))
			if root == nil {
				return nil
			}
			_, unknown, suggestion := validation.LookUpField(root, path)
			missing = missing && unknown != ""
			if suggestion != "" {
				hint = fmt.Sprintf("; did you mean %s?", suggestion)
			}
		}
		if missing {
			errs = append(errs, fmt.Errorf("WithBaseline: IgnoringFields: no kind has the field %s: correct the path%s", validation.JoinFieldPath(path), hint))
		}
	}
	return errs
}

// FinalizerForm explains which finalizers built-in kinds accept.
const FinalizerForm = `use the form "domain/name", such as "example.com/finalizer"`

// CheckFinalizer returns an error if the API server would reject the finalizer for a built-in kind. It accepts more names for custom
// resources and for the kinds of the policy group.
func CheckFinalizer(settings *engine.Settings, kind engine.Kind) error {
	acceptsAny := strings.Contains(kind.GVK.Group, ".") || kind.GVK.Group == policyv1.GroupName // PodDisruptionBudgets
	if isInvalid := validation.QualifiedName(settings.Finalizer) != nil; isInvalid || acceptsAny || strings.Contains(settings.Finalizer, "/") {
		return nil //nolint:nilerr // the option reports an invalid name
	}
	return fmt.Errorf("%s: WithFinalizer(%q): the API server rejects a finalizer without a domain for built-in kinds: %s", kind.GVK.Kind, settings.Finalizer, FinalizerForm)
}
