//! The parser of formulas, and the tree it makes.
//!
//! Called by [`super::Formula::parse`]. Recursive descent with a bound on depth;
//! precedence as in Python, since administrators come with PBS formulas: `**`
//! binds closer than a minus before it and to the right.

use std::ops::Range;

use super::{FormulaError, Names};

/// Nested parts of a formula at most.
const DEPTH_MAX: usize = 96;

/// A checked formula as a tree.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) enum Expr {
    Number(f64),
    Variable(usize),
    Negative(Box<Expr>),
    Binary(Operator, Box<Expr>, Box<Expr>),
    Call(Function, Vec<Expr>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Power,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Function {
    Min,
    Max,
    Clamp,
    Pow,
    Of(Single),
}

/// A function of one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Single {
    Log,
    Log10,
    Log2,
    Exp,
    Sqrt,
    Ceil,
    Floor,
    Round,
    Abs,
    Sin,
    Cos,
    Tan,
}

const FUNCTIONS: [(&str, Function); 17] = [
    ("abs", Function::Of(Single::Abs)),
    ("ceil", Function::Of(Single::Ceil)),
    ("clamp", Function::Clamp),
    ("cos", Function::Of(Single::Cos)),
    ("exp", Function::Of(Single::Exp)),
    // PBS formulas say fabs.
    ("fabs", Function::Of(Single::Abs)),
    ("floor", Function::Of(Single::Floor)),
    ("log", Function::Of(Single::Log)),
    ("log10", Function::Of(Single::Log10)),
    ("log2", Function::Of(Single::Log2)),
    ("max", Function::Max),
    ("min", Function::Min),
    ("pow", Function::Pow),
    ("round", Function::Of(Single::Round)),
    ("sin", Function::Of(Single::Sin)),
    ("sqrt", Function::Of(Single::Sqrt)),
    ("tan", Function::Of(Single::Tan)),
];

impl Function {
    /// How many arguments it takes, and in words.
    fn arity(self) -> (Range<usize>, &'static str) {
        match self {
            Function::Min | Function::Max => (2..usize::MAX, "2 or more"),
            Function::Clamp => (3..4, "3: the value, the least, the most"),
            Function::Pow => (2..3, "2"),
            Function::Of(_) => (1..2, "1"),
        }
    }

    /// Of one argument; those of several are folded by [`Function::pair`].
    pub(in super::super) fn of(self, x: f64) -> f64 {
        match self {
            Function::Of(single) => single.of(x),
            Function::Min | Function::Max | Function::Clamp | Function::Pow => x,
        }
    }

    /// Of two arguments; clamp is a max and a min.
    pub(in super::super) fn pair(self, x: f64, y: f64) -> f64 {
        match self {
            Function::Min => x.min(y),
            Function::Max | Function::Clamp => x.max(y),
            Function::Pow => x.powf(y),
            Function::Of(_) => x,
        }
    }
}

impl Single {
    fn of(self, x: f64) -> f64 {
        match self {
            Single::Log => x.ln(),
            Single::Log10 => x.log10(),
            Single::Log2 => x.log2(),
            Single::Exp => x.exp(),
            Single::Sqrt => x.sqrt(),
            Single::Ceil => x.ceil(),
            Single::Floor => x.floor(),
            Single::Round => x.round(),
            Single::Abs => x.abs(),
            Single::Sin => x.sin(),
            Single::Cos => x.cos(),
            Single::Tan => x.tan(),
        }
    }
}

impl Operator {
    pub(in super::super) fn of(self, x: f64, y: f64) -> f64 {
        match self {
            Operator::Add => x + y,
            Operator::Subtract => x - y,
            Operator::Multiply => x * y,
            Operator::Divide => x / y,
            Operator::Power => x.powf(y),
        }
    }
}

impl Expr {
    /// `None` as soon as any part is no finite number, so that `min(1/0, 5)` is no 5.
    pub(in super::super) fn value(&self, variables: &[f64]) -> Option<f64> {
        let value = match self {
            Expr::Number(number) => *number,
            Expr::Variable(at) => variables.get(*at).copied().unwrap_or(0.0),
            Expr::Negative(of) => -of.value(variables)?,
            Expr::Binary(operator, x, y) => operator.of(x.value(variables)?, y.value(variables)?),
            Expr::Call(Function::Clamp, of) => {
                let (x, least, most) = (&of[0], &of[1], &of[2]);
                let x = x.value(variables)?.max(least.value(variables)?);
                x.min(most.value(variables)?)
            }
            Expr::Call(function, of) => {
                let mut value = of[0].value(variables)?;
                if of.len() == 1 {
                    value = function.of(value);
                }
                for other in &of[1..] {
                    value = function.pair(value, other.value(variables)?);
                }
                value
            }
        };
        value.is_finite().then_some(value)
    }

    /// The numbers of the variables in it, as often as they stand.
    pub(in super::super) fn variables(&self, found: &mut Vec<usize>) {
        match self {
            Expr::Number(_) => {}
            Expr::Variable(at) => found.push(*at),
            Expr::Negative(of) => of.variables(found),
            Expr::Binary(_, x, y) => {
                x.variables(found);
                y.variables(found);
            }
            Expr::Call(_, of) => of.iter().for_each(|part| part.variables(found)),
        }
    }

    fn is_constant(&self) -> bool {
        let mut found = Vec::new();
        self.variables(&mut found);
        found.is_empty()
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(f64),
    Name(String),
    Sign(&'static str),
}

const SIGNS: [&str; 8] = ["**", "+", "-", "*", "/", "(", ")", ","];

/// Tokens with their columns.
fn tokens(text: &str) -> Result<Vec<(usize, Token)>, FormulaError> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let column = at + 1;
        let rest = &chars[at..];
        if rest[0].is_whitespace() {
            at += 1;
        } else if rest[0].is_ascii_digit() || rest[0] == '.' {
            let length = number_length(rest);
            let word: String = rest[..length].iter().collect();
            let number = word.parse::<f64>().map_err(|_| FormulaError::Unexpected {
                column,
                given: format!("`{word}`"),
                allowed: "a number such as 10, 0.5 or 1e6",
            })?;
            tokens.push((column, Token::Number(finite(number, column)?)));
            at += length;
        } else if rest[0].is_alphabetic() || rest[0] == '_' {
            let part = |c: &&char| c.is_alphanumeric() || **c == '_' || **c == '.';
            let length = rest.iter().take_while(part).count();
            tokens.push((column, Token::Name(rest[..length].iter().collect())));
            at += length;
        } else {
            let sign = SIGNS
                .into_iter()
                .find(|sign| sign.chars().zip(rest).filter(|(a, b)| a == *b).count() == sign.len());
            let sign = sign.ok_or_else(|| FormulaError::Unexpected {
                column,
                given: format!("`{}`", rest[0]),
                allowed: "a number, a name, + - * / ** ( ) or a comma",
            })?;
            tokens.push((column, Token::Sign(sign)));
            at += sign.len();
        }
    }
    Ok(tokens)
}

/// Digits, a point, and an exponent if digits follow it.
fn number_length(rest: &[char]) -> usize {
    let digits = |from: usize| {
        rest[from..]
            .iter()
            .take_while(|c| c.is_ascii_digit())
            .count()
    };
    let mut length = digits(0);
    if rest.get(length) == Some(&'.') {
        length += 1 + digits(length + 1);
    }
    if matches!(rest.get(length), Some('e' | 'E')) {
        let sign = usize::from(matches!(rest.get(length + 1), Some('+' | '-')));
        let start = (length + 1 + sign).min(rest.len());
        if digits(start) > 0 {
            length = start + digits(start);
        }
    }
    length
}

fn finite(number: f64, column: usize) -> Result<f64, FormulaError> {
    match number.is_finite() {
        true => Ok(number),
        false => Err(FormulaError::NotFinite {
            column,
            given: number,
        }),
    }
}

pub(super) fn parse(text: &str, names: &Names) -> Result<Expr, FormulaError> {
    let mut parser = Parser {
        tokens: tokens(text)?,
        at: 0,
        end: text.chars().count() + 1,
        names,
        depth: 0,
    };
    let expr = parser.sum()?;
    match parser.tokens.get(parser.at) {
        None => Ok(expr),
        Some(_) => Err(parser.unexpected("an operator or the end")),
    }
}

struct Parser<'a> {
    tokens: Vec<(usize, Token)>,
    at: usize,
    end: usize,
    names: &'a Names,
    depth: usize,
}

impl Parser<'_> {
    fn column(&self) -> usize {
        self.tokens
            .get(self.at)
            .map_or(self.end, |(column, _)| *column)
    }

    fn unexpected(&self, allowed: &'static str) -> FormulaError {
        let given = match self.tokens.get(self.at) {
            None => "the end".to_owned(),
            Some((_, Token::Number(number))) => format!("`{number}`"),
            Some((_, Token::Name(name))) => format!("`{name}`"),
            Some((_, Token::Sign(sign))) => format!("`{sign}`"),
        };
        FormulaError::Unexpected {
            column: self.column(),
            given,
            allowed,
        }
    }

    fn sign(&self) -> Option<&'static str> {
        match self.tokens.get(self.at) {
            Some((_, Token::Sign(sign))) => Some(sign),
            Some((_, Token::Number(_) | Token::Name(_))) | None => None,
        }
    }

    fn take(&mut self, sign: &str) -> bool {
        let there = self.sign() == Some(sign);
        self.at += usize::from(there);
        there
    }

    /// One level down; a tree no deeper than the bound can be walked by recursion.
    fn deeper<T>(
        &mut self,
        part: impl FnOnce(&mut Self) -> Result<T, FormulaError>,
    ) -> Result<T, FormulaError> {
        if self.depth == DEPTH_MAX {
            return Err(FormulaError::Deep {
                column: self.column(),
                allowed: DEPTH_MAX,
            });
        }
        self.depth += 1;
        let result = part(self);
        self.depth -= 1;
        result
    }

    fn checked(&self, expr: Expr, column: usize) -> Result<Expr, FormulaError> {
        if expr.is_constant() && expr.value(&[]).is_none() {
            let given = match &expr {
                Expr::Binary(operator, x, y) => {
                    operator.of(x.value(&[]).unwrap_or(0.0), y.value(&[]).unwrap_or(0.0))
                }
                Expr::Call(function, of) if of.len() == 1 => {
                    function.of(of[0].value(&[]).unwrap_or(0.0))
                }
                Expr::Call(..) | Expr::Number(_) | Expr::Variable(_) | Expr::Negative(_) => {
                    f64::NAN
                }
            };
            return Err(FormulaError::NotFinite { column, given });
        }
        Ok(expr)
    }

    fn sum(&mut self) -> Result<Expr, FormulaError> {
        self.chain(
            &[("+", Operator::Add), ("-", Operator::Subtract)],
            Parser::product,
        )
    }

    fn product(&mut self) -> Result<Expr, FormulaError> {
        self.chain(
            &[("*", Operator::Multiply), ("/", Operator::Divide)],
            Parser::negative,
        )
    }

    /// Operators of one precedence, from the left; each makes the tree one deeper.
    fn chain(
        &mut self,
        operators: &[(&str, Operator)],
        part: fn(&mut Self) -> Result<Expr, FormulaError>,
    ) -> Result<Expr, FormulaError> {
        let column = self.column();
        let mut left = self.deeper(part)?;
        let mut length = 0;
        loop {
            let sign = self.sign();
            let Some((sign, operator)) = operators.iter().find(|(known, _)| sign == Some(*known))
            else {
                return Ok(left);
            };
            length += 1;
            if length > DEPTH_MAX {
                return Err(FormulaError::Deep {
                    column: self.column(),
                    allowed: DEPTH_MAX,
                });
            }
            self.take(sign);
            let right = self.deeper(part)?;
            let both = Expr::Binary(*operator, Box::new(left), Box::new(right));
            left = self.checked(both, column)?;
        }
    }

    fn negative(&mut self) -> Result<Expr, FormulaError> {
        if self.take("-") {
            let of = self.deeper(Parser::negative)?;
            return Ok(Expr::Negative(Box::new(of)));
        }
        if self.take("+") {
            return self.deeper(Parser::negative);
        }
        self.power()
    }

    fn power(&mut self) -> Result<Expr, FormulaError> {
        let column = self.column();
        let base = self.atom()?;
        if !self.take("**") {
            return Ok(base);
        }
        let exponent = self.deeper(Parser::negative)?;
        let both = Expr::Binary(Operator::Power, Box::new(base), Box::new(exponent));
        self.checked(both, column)
    }

    fn atom(&mut self) -> Result<Expr, FormulaError> {
        let column = self.column();
        match self.tokens.get(self.at).cloned() {
            Some((_, Token::Number(number))) => {
                self.at += 1;
                Ok(Expr::Number(number))
            }
            Some((_, Token::Name(name))) => {
                self.at += 1;
                match self.take("(") {
                    true => self.deeper(|parser| parser.call(&name, column)),
                    false => self.name(name, column),
                }
            }
            Some((_, Token::Sign("("))) => {
                self.at += 1;
                let inside = self.deeper(Parser::sum)?;
                self.close()?;
                Ok(inside)
            }
            Some((_, Token::Sign(_))) | None => {
                Err(self.unexpected("a number, a name, a function or a part in parentheses"))
            }
        }
    }

    fn close(&mut self) -> Result<(), FormulaError> {
        match self.take(")") {
            true => Ok(()),
            false => Err(self.unexpected("an operator or `)`")),
        }
    }

    fn name(&self, name: String, column: usize) -> Result<Expr, FormulaError> {
        let known = || self.names.all();
        match self.names.resolve(&name) {
            Some(Expr::Number(number)) => Ok(Expr::Number(finite(number, column)?)),
            Some(expr) => Ok(expr),
            None => Err(FormulaError::Name {
                column,
                name,
                known: known(),
            }),
        }
    }

    /// After the opening parenthesis.
    fn call(&mut self, name: &str, column: usize) -> Result<Expr, FormulaError> {
        let Some((_, function)) = FUNCTIONS.iter().find(|(known, _)| *known == name) else {
            return Err(FormulaError::Function {
                column,
                name: name.to_owned(),
                known: FUNCTIONS.map(|(name, _)| name).join(" "),
            });
        };
        let mut of = Vec::new();
        if !self.take(")") {
            of.push(self.sum()?);
            while self.take(",") {
                of.push(self.sum()?);
            }
            self.close()?;
        }
        let (arity, allowed) = function.arity();
        if !arity.contains(&of.len()) {
            return Err(FormulaError::Arity {
                column,
                name: name.to_owned(),
                given: of.len(),
                allowed,
            });
        }
        self.checked(Expr::Call(*function, of), column)
    }
}
