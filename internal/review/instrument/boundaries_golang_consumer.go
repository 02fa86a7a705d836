// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"assay/internal/review/patch"
)

// Import paths of the messaging libraries whose processing code findLoops finds.
const (
	goKafka  = "github.com/segmentio/kafka-go"
	goSarama = "github.com/IBM/sarama"
	goAMQP   = "github.com/rabbitmq/amqp091-go"
	goNATS   = "github.com/nats-io/nats.go"
	goSQS    = "github.com/aws/aws-sdk-go-v2/service/sqs"
	goKgo    = "github.com/twmb/franz-go/pkg/kgo"
)

var goConsuming = []string{goKafka, goSarama, goAMQP, goNATS, goSQS, goKgo}

// goLoop is code that processes a message: the statements from an offset to the end of a block.
type goLoop struct {
	library  string // as in instrumentation.Boundary
	helper   string // file of the helper package
	start    string // helper function
	arg      string // arguments of the helper function after the context: the queue, if there is one, and the message
	context  string // expression of the context, "" if the loop has none
	after    int    // offset before the statements
	list     []ast.Stmt
	earlier  []string   // names that the block may declare before the statements
	callback bool       // the statements are the body of a function without results
	stack    []ast.Node // nodes around the statements, outermost first
	pos      token.Pos  // position that the step reports
	why      string     // reason why the code is left, "" if it is instrumented
}

// loops finds the code of a file that processes messages.
type loops struct {
	*goFile
	stack  []ast.Node
	found  []*goLoop
	queues map[string]string                 // expression of the queue, by library, function and variable of its messages
	bodies map[*ast.BlockStmt]bool           // blocks with a found loop
	params map[*ast.FuncType]map[string]bool // parameters that are channels of AMQP deliveries
	funcs  map[goFunc]*ast.FuncDecl
}

// goFunc is the name of a function or method.
type goFunc struct {
	name   string
	method bool
}

// findLoops returns the code of a file that processes messages.
func (f *goFile) findLoops() []*goLoop {
	if !f.ImportsAny(goConsuming...) || !f.parse() {
		return nil
	}
	l := &loops{goFile: f, queues: map[string]string{}, bodies: map[*ast.BlockStmt]bool{}, params: map[*ast.FuncType]map[string]bool{}, funcs: map[goFunc]*ast.FuncDecl{}}
	for _, d := range l.tree.Decls {
		if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
			if key := (goFunc{d.Name.Name, d.Recv != nil}); l.funcs[key] == nil {
				l.funcs[key] = d
			}
		}
	}
	l.walk(l.receivers)
	l.walk(l.processors)
	return l.found
}

// walk calls visit for the nodes of the file. During the call, l.stack holds the nodes around the node.
func (l *loops) walk(visit func(ast.Node)) {
	ast.PreorderStack(l.tree, nil, func(n ast.Node, stack []ast.Node) bool {
		l.stack = stack
		visit(n)
		return true
	})
}

// key returns the key of a variable: its name, qualified by the function declaration around the current node.
func (l *loops) key(name string) string {
	for _, n := range l.stack {
		if d, ok := n.(*ast.FuncDecl); ok {
			return strconv.Itoa(int(d.Pos())) + " " + name
		}
	}
	return name
}

// receivers records the variables that hold deliveries of AMQP and results of SQS, with the expression of their queue.
func (l *loops) receivers(n ast.Node) {
	assign, ok := n.(*ast.AssignStmt)
	if !ok || len(assign.Rhs) != 1 {
		return
	}
	call, name := method(assign.Rhs[0])
	if call == nil {
		return
	}
	id, ok := assign.Lhs[0].(*ast.Ident)
	if !ok {
		return
	}
	switch {
	case (name == "Consume" || name == "ConsumeWithContext") && l.local(goAMQP) != "":
		at := 0
		if name == "ConsumeWithContext" {
			at = 1
		}
		queue := `""`
		if at < len(call.Args) && plain(call.Args[at]) {
			queue = l.text(call.Args[at])
		}
		l.queues["amqp "+l.key(id.Name)] = queue
	case name == "ReceiveMessage" && len(call.Args) >= 2 && l.local(goSQS) != "":
		l.queues["sqs "+l.key(id.Name)] = l.queueURL(call.Args[1])
	}
}

// queueURL returns the expression of the queue's URL in the input of ReceiveMessage, `""` if it cannot be repeated.
func (l *loops) queueURL(input ast.Expr) string {
	if u, ok := input.(*ast.UnaryExpr); ok {
		if x, ok := u.X.(*ast.CompositeLit); ok {
			if field := fieldOf(x, "QueueUrl"); field != nil {
				switch v := field.Value.(type) {
				case *ast.CallExpr: // aws.String(url)
					if _, name := method(v); name == "String" && len(v.Args) == 1 && plain(v.Args[0]) {
						return l.text(v.Args[0])
					}
				case *ast.UnaryExpr: // &url
					if v.Op == token.AND && plain(v.X) {
						return l.text(v.X)
					}
				default: // a pointer; it is not nil, because the request succeeded
					if plain(v) {
						return "*" + l.text(v)
					}
				}
			}
		}
	}
	return `""`
}

// plain reports whether an expression can be repeated without side effects: a string, a variable or a field.
func plain(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Kind == token.STRING
	case *ast.Ident:
		return e.Name != "nil"
	case *ast.SelectorExpr:
		return plain(e.X)
	}
	return false
}

// method returns the call and the name of its method or of its qualified function. The call is nil for other
// expressions.
func method(e ast.Expr) (*ast.CallExpr, string) {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return nil, ""
	}
	if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
		return call, sel.Sel.Name
	}
	return nil, ""
}

// processors records the code that processes messages.
func (l *loops) processors(n ast.Node) {
	switch n := n.(type) {
	case *ast.ForStmt:
		l.reader(n)
	case *ast.RangeStmt:
		if kind, queue := l.channel(n.X); kind != "" {
			if id, ok := n.Key.(*ast.Ident); ok {
				l.add(kind, queue, id.Name, n.Body, l.at(n.Body.Lbrace)+1, n.Body.List, n.Pos())
			}
			return
		}
		sel, ok := n.X.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "Messages" {
			return
		}
		out, ok := sel.X.(*ast.Ident)
		if !ok {
			return
		}
		if queue, ok := l.queues["sqs "+l.key(out.Name)]; ok {
			if id, ok := n.Value.(*ast.Ident); ok {
				l.add("sqs", queue, id.Name, n.Body, l.at(n.Body.Lbrace)+1, n.Body.List, n.Pos())
			}
		}
	case *ast.CommClause:
		l.clause(n)
	case *ast.CallExpr:
		l.subscription(n)
	}
}

// channel returns the kind of the messages of a channel, "sarama" or "amqp", and the expression of the queue. The kind
// is "" for other channels.
func (l *loops) channel(e ast.Expr) (kind, queue string) {
	if call, name := method(e); call != nil && name == "Messages" && len(call.Args) == 0 && l.local(goSarama) != "" {
		return "sarama", ""
	}
	if id, ok := e.(*ast.Ident); ok {
		if queue, ok := l.queues["amqp "+l.key(id.Name)]; ok {
			return "amqp", queue
		}
		if l.delivers(id.Name) {
			return "amqp", `""`
		}
	}
	return "", ""
}

// delivers reports whether name is a parameter of a function around the current node that is a channel of AMQP
// deliveries.
func (l *loops) delivers(name string) bool {
	return slices.ContainsFunc(l.stack, func(n ast.Node) bool {
		typ := functionType(n)
		return typ != nil && l.deliveries(typ)[name]
	})
}

// functionType returns the type of a function, nil for other nodes.
func functionType(n ast.Node) *ast.FuncType {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return n.Type
	case *ast.FuncLit:
		return n.Type
	}
	return nil
}

// deliveries returns the parameters of a function that are channels of AMQP deliveries.
func (l *loops) deliveries(fn *ast.FuncType) map[string]bool {
	if names, ok := l.params[fn]; ok {
		return names
	}
	names, pkg := map[string]bool{}, l.local(goAMQP)
	for _, field := range fn.Params.List {
		if _, ok := field.Type.(*ast.ChanType); ok && pkg != "" && l.text(field.Type) == "<-chan "+pkg+".Delivery" {
			for _, id := range field.Names {
				names[id.Name] = true
			}
		}
	}
	l.params[fn] = names
	return names
}

// clause records a case of a select statement that receives a message.
func (l *loops) clause(c *ast.CommClause) {
	assign, ok := c.Comm.(*ast.AssignStmt)
	if !ok || len(assign.Rhs) != 1 {
		return
	}
	receive, ok := assign.Rhs[0].(*ast.UnaryExpr)
	if !ok || receive.Op != token.ARROW {
		return
	}
	kind, queue := l.channel(receive.X)
	id, ok := assign.Lhs[0].(*ast.Ident)
	if kind == "" || !ok {
		return
	}
	after, list := l.at(c.Colon)+1, c.Body
	closed := ""
	if len(assign.Lhs) == 2 {
		if second, ok := assign.Lhs[1].(*ast.Ident); ok {
			closed = second.Name
		}
	}
	for len(list) > 0 { // if !ok { return }
		check, ok := list[0].(*ast.IfStmt)
		if !ok || check.Init != nil || check.Else != nil || !(identifiers(check.Cond)[closed] || isNil(check.Cond, id.Name)) || !terminates(check.Body) {
			break
		}
		after, list = l.at(check.End()), list[1:]
	}
	if found := l.add(kind, queue, id.Name, c, after, list, c.Pos()); found != nil {
		found.earlier = []string{id.Name, closed}
	}
}

// isNil reports whether an expression is name == nil.
func isNil(e ast.Expr, name string) bool {
	b, ok := e.(*ast.BinaryExpr)
	if !ok || b.Op != token.EQL {
		return false
	}
	return isIdent(b.X, name) && isIdent(b.Y, "nil")
}

// isIdent reports whether an expression is the identifier name.
func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// reader records a loop that reads messages of Kafka one by one.
func (l *loops) reader(loop *ast.ForStmt) {
	if l.local(goKafka) == "" {
		return
	}
	for i, stmt := range loop.Body.List {
		assign, ok := stmt.(*ast.AssignStmt)
		if !ok || len(assign.Lhs) != 2 || len(assign.Rhs) != 1 {
			continue
		}
		call, name := method(assign.Rhs[0])
		if call == nil || name != "ReadMessage" && name != "FetchMessage" || len(call.Args) != 1 {
			continue
		}
		message, ok1 := assign.Lhs[0].(*ast.Ident)
		failed, ok2 := assign.Lhs[1].(*ast.Ident)
		if !ok1 || !ok2 || message.Name == "_" {
			continue
		}
		rest, after, checked := loop.Body.List[i+1:], 0, false
		for len(rest) > 0 {
			check, ok := rest[0].(*ast.IfStmt)
			if !ok || check.Init != nil || !identifiers(check.Cond)[failed.Name] {
				break
			}
			checked = checked || check.Else == nil && terminates(check.Body) && isError(check.Cond) == failed.Name
			after, rest = l.at(check.End()), rest[1:]
		}
		found := l.add("kafka", "", message.Name, loop.Body, after, rest, assign.Pos())
		if found == nil {
			return
		}
		if !checked {
			found.why = "the loop does not end its pass when no message was read"
		}
		if repeatable(call.Args[0]) {
			found.context = l.text(call.Args[0])
		}
		for _, s := range loop.Body.List[:i+1] {
			found.earlier = slices.AppendSeq(found.earlier, maps.Keys(identifiers(s)))
		}
		return
	}
}

// maxContext is the maximum length in bytes of a call that withContext compares with the expression of the context.
const maxContext = 100

// repeatable reports whether the expression of a context can be repeated without side effects.
func repeatable(e ast.Expr) bool {
	if call, name := method(e); call != nil {
		return len(call.Args) == 0 && (name == "Context" || name == "Background" || name == "TODO") && repeatable(call.Fun.(*ast.SelectorExpr).X)
	}
	return plain(e)
}

// callbacks holds the methods that call a function for each message: the kind and type of the message, and the index of
// the function among the arguments.
var callbacks = map[string]struct {
	kind, pkg, typ string
	at             int
}{
	"Subscribe": {"nats", goNATS, ".Msg", 1}, "QueueSubscribe": {"nats", goNATS, ".Msg", 2}, "EachRecord": {"kgorecord", goKgo, ".Record", 0},
}

// subscription records the function that a method of callbacks calls for each message.
func (l *loops) subscription(call *ast.CallExpr) {
	_, name := method(call)
	callback, ok := callbacks[name]
	at := callback.at
	if !ok || at >= len(call.Args) || l.local(callback.pkg) == "" {
		return
	}
	var typ *ast.FuncType
	var body *ast.BlockStmt
	stack := slices.Clone(l.stack)
	switch f := call.Args[at].(type) {
	case *ast.FuncLit:
		typ, body = f.Type, f.Body
		stack = append(stack, call, f)
	case *ast.Ident:
		typ, body, stack = l.declared(f.Name, false)
	case *ast.SelectorExpr:
		typ, body, stack = l.declared(f.Sel.Name, true)
	}
	if body == nil || typ.Results != nil || len(typ.Params.List) != 1 || len(typ.Params.List[0].Names) != 1 || typ.Params.List[0].Names[0].Name == "_" ||
		l.text(typ.Params.List[0].Type) != "*"+l.local(callback.pkg)+callback.typ {
		return
	}
	was := l.stack
	l.stack = stack
	message := typ.Params.List[0].Names[0].Name
	if found := l.add(callback.kind, "", message, body, l.at(body.Lbrace)+1, body.List, call.Pos()); found != nil {
		found.callback, found.earlier = true, []string{message}
		if callback.kind == "kgorecord" && l.scopeContext(found) == "" {
			found.context = message + ".Context" // has the receive span
		}
	}
	l.stack = was
}

// declared returns the type, the body and the enclosing nodes of a function or method of this file, nil if there is
// none.
func (l *loops) declared(name string, isMethod bool) (*ast.FuncType, *ast.BlockStmt, []ast.Node) {
	if d := l.funcs[goFunc{name, isMethod}]; d != nil {
		return d.Type, d.Body, []ast.Node{l.tree, d}
	}
	return nil, nil, nil
}

// starters maps the kind of a message to the helper function that starts its processing and the library of the
// boundary.
var starters = map[string][2]string{
	"kafka": {"ProcessKafka", goKafka}, "sarama": {"ProcessSarama", goSarama}, "amqp": {"ProcessAMQP", goAMQP},
	"nats": {"ProcessNATS", goNATS}, "kgorecord": {"ProcessKgo", goKgo}, "sqs": {"ProcessSQS", "github.com/aws/aws-sdk-go-v2"},
}

// add records code that processes a message. It returns nil if the code is empty, is recorded already, or ignores the
// message.
func (l *loops) add(kind, queue, message string, block ast.Node, after int, list []ast.Stmt, pos token.Pos) *goLoop {
	body, ok := block.(*ast.BlockStmt)
	if len(list) == 0 || message == "_" || ok && l.bodies[body] || len(l.found) > maxFileBoundaries {
		return nil
	}
	if ok {
		l.bodies[body] = true
	}
	arg := message
	if queue != "" {
		arg = queue + ", " + message
	}
	found := &goLoop{
		library: starters[kind][1], helper: kind, start: starters[kind][0], arg: arg,
		after: after, list: list, stack: slices.Clone(l.stack), pos: pos,
	}
	l.found = append(l.found, found)
	return found
}

// isError returns the variable of a condition like err != nil, "" for other conditions.
func isError(e ast.Expr) string {
	b, ok := e.(*ast.BinaryExpr)
	if !ok || b.Op != token.NEQ {
		return ""
	}
	if x, ok := b.X.(*ast.Ident); ok && isIdent(b.Y, "nil") && errorName.MatchString(x.Name) {
		return x.Name
	}
	return ""
}

var errorName = regexp.MustCompile(`^(e|.*[eE]rr(or)?)$`)

// terminates reports whether a block ends with a statement that leaves it.
func terminates(b *ast.BlockStmt) bool { return len(b.List) > 0 && leaves(b.List[len(b.List)-1]) }

// leaves reports whether control never reaches the code after a statement.
func leaves(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ReturnStmt:
		return true
	case *ast.BranchStmt:
		return s.Tok != token.FALLTHROUGH
	case *ast.BlockStmt:
		return terminates(s)
	case *ast.LabeledStmt:
		return leaves(s.Stmt)
	case *ast.IfStmt:
		return s.Else != nil && terminates(s.Body) && leaves(s.Else)
	case *ast.ForStmt:
		return s.Cond == nil && !breaks(s.Body)
	case *ast.SwitchStmt:
		return clausesLeave(s.Body, true)
	case *ast.TypeSwitchStmt:
		return clausesLeave(s.Body, true)
	case *ast.SelectStmt:
		return clausesLeave(s.Body, false)
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		if !ok {
			return false
		}
		if id, ok := call.Fun.(*ast.Ident); ok {
			return id.Name == "panic"
		}
		_, name := method(call)
		switch name {
		case "Exit":
			pkg, ok := call.Fun.(*ast.SelectorExpr).X.(*ast.Ident)
			return ok && (pkg.Name == "os" || pkg.Name == "syscall")
		case "Fatal", "Fatalf", "Fatalln", "Fatalw": // of loggers
			return len(call.Args) > 0
		}
	}
	return false
}

// breaks reports whether a block contains a break.
func breaks(b *ast.BlockStmt) bool {
	for n := range ast.Preorder(b) {
		if s, ok := n.(*ast.BranchStmt); ok && s.Tok == token.BREAK {
			return true
		}
	}
	return false
}

// clausesLeave reports whether control never reaches the code after a switch or select.
func clausesLeave(b *ast.BlockStmt, needsDefault bool) bool {
	for _, s := range b.List {
		var list []ast.Stmt
		switch c := s.(type) {
		case *ast.CaseClause:
			list, needsDefault = c.Body, needsDefault && c.List != nil
		case *ast.CommClause:
			list = c.Body
		}
		if len(list) == 0 {
			return false
		}
		last := list[len(list)-1]
		if b, ok := last.(*ast.BranchStmt); !leaves(last) && !(ok && b.Tok == token.FALLTHROUGH) {
			return false
		}
	}
	return !needsDefault && !breaks(b)
}

// identifiers returns the identifiers below a node.
func identifiers(n ast.Node) map[string]bool {
	all := map[string]bool{}
	for n := range ast.Preorder(n) {
		if id, ok := n.(*ast.Ident); ok {
			all[id.Name] = true
		}
	}
	return all
}

// calls reports whether evaluating an expression calls a function or receives from a channel.
func calls(n ast.Node) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.CallExpr:
			found = true
		case *ast.UnaryExpr:
			found = found || n.Op == token.ARROW
		}
		return !found
	})
	return found
}

// consumers adds spans around the code of a file that processes messages.
func (s *service) consumers(m *goModule, f *goFile) {
	end := 0
	for i, l := range f.findLoops() {
		m.consumed[l.library] = true
		if i == maxFileBoundaries || s.ctx.Err() != nil {
			s.leave(f.Path, 0, fmt.Sprintf("More than %d consumers in one file: the others are left", maxFileBoundaries))
			return
		}
		if m.sites++; m.sites > maxServiceBoundaries {
			return // wrap reports it
		}
		first, last := f.at(l.list[0].Pos()), f.at(l.list[len(l.list)-1].End())
		if m.consumers[path.Dir(f.Path)] || m.inSpan(f, first, last) {
			continue
		}
		line := f.LineOf(f.at(l.pos))
		what := fmt.Sprintf("Instrument the queue consumer of `%s`", l.library)
		p := &processing{module: m, goFile: f, goLoop: l}
		if m.elsewhere["github.com/dnwe/otelsarama"] && l.helper == "sarama" {
			continue
		}
		if m.blocked {
			l.why = whyBlocked
		}
		if first < end {
			l.why = "it is in the code of another consumer"
		}
		end = max(end, last)
		if l.why == "" {
			p.plan()
		}
		if l.why != "" {
			s.leaveBoundary(f.Path, line, patch.Boundary{SpanKind: "consumer", Library: l.library}, what+": "+l.why)
			continue
		}
		for _, e := range p.edits {
			s.edit(f.Path, f.Source, e.Start, e.End, e.New)
		}
		m.need(l.helper)
		s.did(f.Path, line, what+" by a span around the code after a message is received, and `messaging.process.duration`")
	}
}

// inSpan reports whether code starts a span, is in a span, or calls a Process function of the helper package.
func (m *goModule) inSpan(f *goFile, start, end int) bool {
	for _, s := range f.uses.Spans {
		if s.Start.Start >= start && s.Start.Start < end || s.Body != nil && s.Body.Start <= start && end <= s.Body.End {
			return true
		}
	}
	name := f.local(m.helper())
	return name != "" && bytes.Contains(f.Source[start:end], []byte(name+".Process"))
}

// processing is a plan of the edits around the code that processes a message.
type processing struct {
	*goFile
	*goLoop
	module     *goModule
	edits      []udiff.Edit
	variable   string
	labels     map[string]bool // labels in the code
	errors     map[string]bool // whether variables hold errors
	result     string          // result types of the function around the code
	background bool            // the context is context.Background()
}

// plan sets the edits, or the reason why the code is left.
func (p *processing) plan() {
	fn, typ := p.function()
	if fn == nil {
		p.why = whyUnknown
		return
	}
	if typ.Results != nil {
		p.result = p.text(typ.Results)
	}
	known := identifiers(fn)
	p.variable = "processing"
	if known[p.variable] {
		p.why = "the name `processing` is taken in this function"
		return
	}
	p.labels = map[string]bool{}
	for _, s := range p.list {
		for n := range ast.Preorder(s) {
			if l, ok := n.(*ast.LabeledStmt); ok {
				p.labels[l.Label.Name] = true
			}
		}
	}
	p.survey(fn)
	name := p.withContext(known)
	helper, ok := p.name(p.module.helper())
	if p.why == "" && !ok {
		p.why = taken(p.module.helper())
	}
	if p.why != "" {
		return
	}
	indent, _ := indentOf(p.Source, p.at(p.list[0].Pos()))
	indent = indent[:len(indent)-len(strings.TrimLeft(indent, " \t"))]
	p.afterLine(p.after, indent, name+", "+p.variable+" := "+helper+"."+p.start+"("+p.context+", "+p.arg+")")
	if p.callback {
		p.afterLine(p.after, indent, "defer "+p.variable+".End()")
	}
	start := len(p.edits)
	p.statements(p.list, 0, 0)
	if last := p.list[len(p.list)-1]; !p.callback && !leaves(last) {
		p.afterLine(p.at(last.End()), indent, p.variable+".End()")
	}
	switch {
	case p.why != "":
	case !p.callback && len(p.edits) == start:
		p.why = "the program ends with the message"
	case len(p.edits) > maxExits:
		p.why = "the code has too many exits"
	default:
		p.use(p.module.helper())
		if p.background {
			p.use("context")
		}
	}
}

// survey finds the error variables of the function around the code. It leaves the code if a goto in the function jumps
// into it.
func (p *processing) survey(fn ast.Node) {
	p.errors = map[string]bool{}
	for n := range ast.Preorder(fn) {
		switch n := n.(type) {
		case *ast.AssignStmt:
			last, ok := n.Lhs[len(n.Lhs)-1].(*ast.Ident)
			if !ok {
				break
			}
			call := false
			if len(n.Rhs) == 1 {
				_, call = n.Rhs[0].(*ast.CallExpr)
			}
			is := call && len(n.Lhs) > 1 && errorName.MatchString(last.Name)
			if known, seen := p.errors[last.Name]; seen || is || n.Tok == token.DEFINE {
				p.errors[last.Name] = is && (known || !seen)
			}
		case *ast.RangeStmt:
			if id, ok := n.Value.(*ast.Ident); ok {
				p.errors[id.Name] = false
			}
		case *ast.BranchStmt:
			if n.Tok == token.GOTO && n.Pos() < p.list[0].Pos() && p.labels[n.Label.Name] {
				p.why = "a goto before it leads into it"
			}
		}
	}
	p.errors["err"] = true
}

// maxExits is the maximum number of edits per goLoop.
const maxExits = 500

// function returns the outermost function around the code, and the type of the innermost.
func (p *processing) function() (outer ast.Node, typ *ast.FuncType) {
	for _, n := range p.stack {
		if inner := functionType(n); inner != nil {
			outer, typ = cmp.Or(outer, n), inner
		}
	}
	return outer, typ
}

// withContext finds the context of the code and plans the edits that make the code use the context with the span. It
// returns the variable of the context with the span, "_" if the code uses no context.
func (p *processing) withContext(known map[string]bool) string {
	if p.context == "" {
		p.context = p.scopeContext(p.goLoop)
	}
	if p.context == "" {
		pkg, ok := p.name("context")
		if !ok {
			p.why = taken("context")
			return ""
		}
		p.context, p.background = pkg+".Background()", true
	}
	pkg := p.local("context")
	same := func(n *ast.CallExpr) bool {
		if n.End()-n.Pos() > maxContext {
			return false
		}
		text := p.text(n)
		return text == p.context || pkg != "" && (text == pkg+".Background()" || text == pkg+".TODO()")
	}
	name, used := p.context, false
	variable := token.IsIdentifier(p.context)
	if !variable {
		name = "ctx"
	}
	if variable {
		used = p.uses(name)
	} else if !known["ctx"] {
		for _, s := range p.list {
			ast.Inspect(s, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if ok && same(call) {
					used = true
					p.edits = append(p.edits, udiff.Edit{Start: p.at(n.Pos()), End: p.at(n.End()), New: "ctx"})
				}
				return !ok || !same(call)
			})
		}
	}
	if !used {
		return "_"
	}
	return name
}

// uses reports whether the code uses a variable of the enclosing scope. It ignores blocks that declare a variable of
// the same name. It leaves code that assigns to the variable, or whose own declaration of it would not compile after
// the change.
func (p *processing) uses(name string) bool {
	is := func(e ast.Expr) bool { return isIdent(e, name) }
	declares := func(s ast.Stmt) bool {
		switch s := s.(type) {
		case *ast.AssignStmt:
			return s.Tok == token.DEFINE && slices.ContainsFunc(s.Lhs, is)
		case *ast.DeclStmt:
			return identifiers(s)[name]
		case *ast.RangeStmt:
			return s.Tok == token.DEFINE && (is(s.Key) || is(s.Value))
		}
		return false
	}
	before := map[string]bool{name: true}
	for _, id := range p.earlier {
		before[id] = true
	}
	used := false
	var visit func(ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE && slices.ContainsFunc(n.Lhs, is) {
				p.why = "the code assigns another value to `" + name + "`"
			}
		case *ast.StructType:
			return false
		case *ast.FuncLit:
			return !slices.ContainsFunc(n.Type.Params.List, func(f *ast.Field) bool {
				return slices.ContainsFunc(f.Names, func(id *ast.Ident) bool { return id.Name == name })
			})
		case *ast.BlockStmt:
			return !slices.ContainsFunc(n.List, declares)
		case *ast.CaseClause:
			return !slices.ContainsFunc(n.Body, declares)
		case *ast.CommClause:
			return !declares(n.Comm) && !slices.ContainsFunc(n.Body, declares)
		case *ast.IfStmt:
			return !declares(n.Init)
		case *ast.ForStmt:
			return !declares(n.Init)
		case *ast.RangeStmt:
			return !declares(n)
		case *ast.SwitchStmt:
			return !declares(n.Init)
		case *ast.SelectorExpr: // skip the name of the field
			ast.Inspect(n.X, visit)
			return false
		case *ast.KeyValueExpr:
			if is(n.Key) {
				ast.Inspect(n.Value, visit)
				return false
			}
		case *ast.Ident:
			used = used || n.Name == name
		}
		return true
	}
	for _, s := range p.list {
		if declares(s) && p.same(s, before) {
			p.why = "the code declares `" + name + "` again"
		}
		maps.Copy(before, identifiers(s))
		ast.Inspect(s, visit)
	}
	return used
}

// same reports whether a declaration would not compile, because its block has declared all of its names before.
func (p *processing) same(s ast.Stmt, before map[string]bool) bool {
	assign, ok := s.(*ast.AssignStmt)
	if !ok {
		_, declares := s.(*ast.DeclStmt)
		return declares
	}
	return !slices.ContainsFunc(assign.Lhs, func(e ast.Expr) bool {
		id, ok := e.(*ast.Ident)
		return ok && id.Name != "_" && !before[id.Name]
	})
}

// scopeContext returns the expression of a context in scope at the code, "" if there is none.
func (f *goFile) scopeContext(l *goLoop) string {
	for _, n := range slices.Backward(l.stack) {
		if block, ok := n.(*ast.BlockStmt); ok && slices.ContainsFunc(block.List, func(s ast.Stmt) bool {
			assign, ok := s.(*ast.AssignStmt)
			return ok && s.End() < l.pos && assign.Tok == token.DEFINE && isIdent(assign.Lhs[0], "ctx")
		}) {
			return "ctx"
		}
		typ := functionType(n)
		if typ == nil {
			continue
		}
		for _, field := range typ.Params.List {
			for _, name := range field.Names {
				switch t := f.text(field.Type); {
				case name.Name == "_":
				case t == "context.Context":
					return name.Name
				case strings.HasSuffix(t, "sarama.ConsumerGroupSession"):
					return name.Name + ".Context()"
				}
			}
		}
	}
	return ""
}

// statements plans the calls that end the processing and that record errors in a list of statements. Continues and
// breaks count the enclosing statements within the code to which a continue or break without a label may refer.
func (p *processing) statements(list []ast.Stmt, continues, breaks int) {
	for _, s := range list {
		if p.why != "" {
			return
		}
		p.statement(s, continues, breaks)
	}
}

func (p *processing) statement(s ast.Stmt, continues, breaks int) {
	switch s := s.(type) {
	case *ast.ReturnStmt:
		p.returns(s)
	case *ast.BranchStmt:
		switch {
		case s.Tok == token.FALLTHROUGH || s.Label != nil && p.labels[s.Label.Name]:
		case s.Tok == token.GOTO:
			p.why = "the code leaves it by goto"
		case s.Label != nil || s.Tok == token.CONTINUE && continues == 0 || s.Tok == token.BREAK && breaks == 0:
			p.before(s, p.variable+".End()")
		}
	case *ast.BlockStmt:
		p.statements(s.List, continues, breaks)
	case *ast.LabeledStmt:
		p.statement(s.Stmt, continues, breaks)
	case *ast.IfStmt:
		if name := isError(s.Cond); p.errors[name] && continues == 0 && len(s.Body.List) > 0 {
			p.before(s.Body.List[0], p.variable+".Fail("+name+")")
		}
		p.statements(s.Body.List, continues, breaks)
		if s.Else != nil {
			p.statement(s.Else, continues, breaks)
		}
	case *ast.ForStmt:
		p.statements(s.Body.List, continues+1, breaks+1)
	case *ast.RangeStmt:
		p.statements(s.Body.List, continues+1, breaks+1)
	case *ast.SwitchStmt:
		p.statements(s.Body.List, continues, breaks+1)
	case *ast.TypeSwitchStmt:
		p.statements(s.Body.List, continues, breaks+1)
	case *ast.SelectStmt:
		p.statements(s.Body.List, continues, breaks+1)
	case *ast.CaseClause:
		p.statements(s.Body, continues, breaks)
	case *ast.CommClause:
		p.statements(s.Body, continues, breaks)
		if _, ok := s.Comm.(*ast.SendStmt); ok {
			p.why = whyHanded
		}
	case *ast.GoStmt, *ast.SendStmt:
		p.why = whyHanded
	}
}

const whyHanded = "another goroutine processes the message"

// returns plans the call that ends the processing at a return statement.
func (p *processing) returns(s *ast.ReturnStmt) {
	switch {
	case p.callback:
	case len(s.Results) == 1 && p.result == "error" && calls(s.Results[0]):
		result := s.Results[0]
		p.edits = append(p.edits, udiff.Edit{Start: p.at(result.Pos()), End: p.at(result.Pos()), New: p.variable + ".Done("}, udiff.Edit{Start: p.at(result.End()), End: p.at(result.End()), New: ")"})
	case slices.ContainsFunc(s.Results, func(e ast.Expr) bool { return calls(e) }):
		p.why = "the results of its return are computed after the message is processed"
	default:
		p.before(s, p.variable+".End()")
	}
}

// before plans the insertion of a statement before s.
func (p *processing) before(s ast.Stmt, statement string) {
	at := p.at(s.Pos())
	indent, alone := indentOf(p.Source, at)
	if alone {
		at -= len(indent)
		statement = indent + statement + newline(p.Source)
	} else {
		statement += "; "
	}
	p.edits = append(p.edits, udiff.Edit{Start: at, End: at, New: statement})
}

// afterLine plans the insertion of a statement after the code that ends at an offset. The statement goes on the next
// line if nothing but a comment follows on the line.
func (p *processing) afterLine(at int, indent, statement string) {
	end := bytes.IndexByte(p.Source[at:], '\n')
	if end < 0 {
		p.why = whyUnknown
		return
	}
	rest := bytes.TrimSpace(p.Source[at : at+end])
	if len(rest) == 0 || bytes.HasPrefix(rest, []byte("//")) {
		at += end + 1
		p.edits = append(p.edits, udiff.Edit{Start: at, End: at, New: indent + statement + newline(p.Source)})
		return
	}
	separator := "; "
	if at > 0 && (p.Source[at-1] == '{' || p.Source[at-1] == ':') {
		p.edits = append(p.edits, udiff.Edit{Start: at, End: at, New: " " + statement + separator})
		return
	}
	p.edits = append(p.edits, udiff.Edit{Start: at, End: at, New: separator + statement})
}
