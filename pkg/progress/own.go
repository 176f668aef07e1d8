package progress

// The method CallsNoUserCode marks stores and baselines that call no user code. Package kopf calls all others in separate goroutines,
// because they could call runtime.Goexit. Combinations of stores don't have the method, because they can contain the user's own stores.

func (annotationStore) CallsNoUserCode()    {}
func (statusStore) CallsNoUserCode()        {}
func (smartStore) CallsNoUserCode()         {}
func (*memoryStore) CallsNoUserCode()       {}
func (annotationBaseline) CallsNoUserCode() {}
func (statusBaseline) CallsNoUserCode()     {}
