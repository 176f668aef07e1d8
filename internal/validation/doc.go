// Package validation checks the names and durations in declarations, and explains each mistake in one sentence.
//
//	if err := validation.QualifiedName(key); err != nil {
//		return fmt.Errorf("Label(%q) can never match: %w", key, err)
//	}
//
// Names must follow the API server's rules (k8s.io/apimachinery/pkg/util/validation). Instead of regular expressions, the explanations show
// the invalid character and the allowed ones.
//
// [LookUpField] looks up fields in Go types and schemas, to explain filters that can never match:
//
//	root := validation.GoType(reflect.TypeOf(&appsv1.Deployment{}))
//	_, unknown, suggestion := validation.LookUpField(root, []string{"spec", "replcas"})
//	fmt.Println(unknown, suggestion) // spec.replcas spec.replicas
package validation
