// Package fieldtype looks up fields in Go types and schemas, to explain filters that can never match:
//
//	root := fieldtype.Go(reflect.TypeOf(&appsv1.Deployment{}))
//	_, unknown, suggestion := fieldtype.LookUp(root, []string{"spec", "replcas"})
//	fmt.Println(unknown, suggestion) // spec.replcas spec.replicas
package fieldtype
